"""The two themes keep WCAG AA for every pair of colours that carries text. Computed, no browser."""

import math
import re
from pathlib import Path

import pytest

THEME = Path(__file__).resolve().parents[2] / "static" / "css" / "src" / "theme.css"
BLOCK = re.compile(r'@plugin "daisyui/theme" {(.*?)\n}', re.S)
COLOUR = re.compile(r"--([a-z0-9-]+): oklch\(([\d.]+)% ([\d.]+) ([\d.]+)\)")
TONES = ("primary", "secondary", "info", "success", "warning", "error", "muted")
GROUNDS = ("base-100", "base-200")


def themes():
    found = {}
    for block in BLOCK.findall(THEME.read_text()):
        name = re.search(r'name: "([a-z-]+)"', block).group(1)
        found[name] = {
            key.removeprefix("color-"): oklab(float(light) / 100, float(chroma), float(hue))
            for key, light, chroma, hue in COLOUR.findall(block)
        }
    return found


def oklab(light, chroma, hue):
    angle = math.radians(hue)
    return (light, chroma * math.cos(angle), chroma * math.sin(angle))


def mix(share, one, other):
    """color-mix(in oklab, one share, other)"""
    return tuple(share * a + (1 - share) * b for a, b in zip(one, other, strict=True))


def luminance(colour):
    """Source: https://bottosson.github.io/posts/oklab/ and WCAG 2.2, relative luminance."""
    light, a, b = colour
    l_ = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m_ = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s_ = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * l_ - 3.3077115913 * m_ + 0.2309699292 * s_
    green = -1.2684380046 * l_ + 2.6097574011 * m_ - 0.3413193965 * s_
    blue = -0.0041960863 * l_ - 0.7034186147 * m_ + 1.7076147010 * s_
    red, green, blue = (min(1, max(0, part)) for part in (red, green, blue))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_says():
    assert contrast(oklab(1, 0, 0), oklab(0, 0, 0)) == pytest.approx(21, abs=0.01)
    assert contrast(oklab(1, 0, 0), oklab(1, 0, 0)) == 1


def pairs(theme):
    """Name and contrast of each pair that carries text somewhere."""
    for name in (
        "primary",
        "secondary",
        "accent",
        "neutral",
        "info",
        "success",
        "warning",
        "error",
    ):
        yield f"{name} and its content", contrast(theme[name], theme[f"{name}-content"])
    for ground in (*GROUNDS, "base-300"):
        yield f"text on {ground}", contrast(theme["base-content"], theme[ground])
    for tone in TONES:
        for ground in GROUNDS:
            yield f"{tone} on {ground}", contrast(theme[tone], theme[ground])
        tint = mix(0.09, theme[tone], theme["base-100"])
        yield f"{tone} on its tint", contrast(theme[tone], tint)
    yield "muted on base-300", contrast(theme["muted"], theme["base-300"])
    here = mix(0.10, theme["primary"], theme["base-200"])
    yield "the entry that is open", contrast(theme["primary"], here)


@pytest.mark.parametrize("name", ["tessera", "tessera-dark"])
def test_text_has_a_contrast_of_at_least_four_and_a_half(name):
    faint = {pair: round(ratio, 2) for pair, ratio in pairs(themes()[name]) if ratio < 4.5}

    assert faint == {}


@pytest.mark.parametrize("name", ["tessera", "tessera-dark"])
def test_edges_of_inputs_have_a_contrast_of_at_least_three(name):
    theme = themes()[name]

    for ground in GROUNDS:
        assert contrast(theme["line-strong"], theme[ground]) >= 3
