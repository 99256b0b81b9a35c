"""Templates keep the content security policy, htmx 4 and both languages in mind."""

import re
from pathlib import Path

import pytest

from rental.web.icons import icons

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "templates"
# The admin has its own toolkit and its own policy.
ADMIN = ("admin/", "billing/", "scheduler/", "operate/")
# Builders read it, in English.
FOR_BUILDERS = ("web/components/",)
# Names and commands are the same in every language; so is what stands in capitals (GPU, CSV).
SAME_EVERYWHERE = {
    "Tessera", "OpenAPI", "Ctrl", "Esc", "English", "Terraform", "JupyterLab", "Code", "Cursor",
    "Python", "GiB", "MiB", "curl", "scp", "ssh", "ed", "id", "json", "openapi", "python", "train",
    "py", "epochs",
}  # fmt: skip

COMMENT = re.compile(r"{% comment.*?{% endcomment %}|{#.*?#}|<!--.*?-->", re.S)
FORBIDDEN = {
    "an inline script": re.compile(r"<script(?![^>]*\b(?:src|nonce)=)", re.I),
    "an inline style sheet": re.compile(r"<style(?![^>]*\bnonce=)", re.I),
    "a style attribute": re.compile(r"\sstyle\s*=", re.I),
    "an event attribute": re.compile(r"<[^>]*\son[a-z]+\s*=\s*[\"']", re.I),
    "hx-on": re.compile(r"\bhx-on\b"),
    "a js: value": re.compile(r"=\s*[\"'](?:js|javascript):", re.I),
    "a trigger filter, which is evaluated": re.compile(r"hx-trigger\s*=\s*[\"'][^\"']*\["),
    "a name of htmx 2": re.compile(
        r"\bhx-(?:disabled-elt|ext|vars|params|prompt|disinherit|inherit|request|history|sse|ws)\b(?!-)"
        r"|htmx:[a-z]+[A-Z]"
    ),
    "an address elsewhere": re.compile(r"(?:src|href|action)\s*=\s*[\"'](?:https?:)?//", re.I),
    "HTML that nobody checked": re.compile(r"\|\s*safe\b(?!seq)"),
}
# allauth writes the help of a password field as a list.
ALLOWED = {("web/_form_field.html", "HTML that nobody checked")}


def templates(skip=ADMIN):
    for path in sorted(TEMPLATES.rglob("*.html")):
        name = path.relative_to(TEMPLATES).as_posix()
        if not name.startswith(skip):
            yield name, COMMENT.sub("", path.read_text())


def inherited_from_parent(attribute, text):
    """Elements that carry ``attribute`` without asking for anything: children would need it."""
    asks = re.compile(r"\bhx-(?:get|post|put|patch|delete)\b")
    return [
        tag
        for tag in re.findall(r"<[a-z][^>]*>", text, re.S)
        if attribute(tag) and not asks.search(tag)
    ]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_template_has(what):
    found = [
        f"{name}: {match.group()[:80]}"
        for name, text in templates()
        for match in FORBIDDEN[what].finditer(text)
        if (name, what) not in ALLOWED
    ]

    assert found == []


def test_what_children_should_inherit_says_so():
    """htmx 4 inherits only what is marked; hx-target on a parent would do nothing."""

    def is_plain(tag):
        return re.search(r"\bhx-(?:target|swap|include|indicator|headers|sync|select)=", tag)

    found = [
        f"{name}: {tag[:100]}"
        for name, text in templates()
        for tag in inherited_from_parent(is_plain, text)
        if not tag.startswith(("<c-", "<hx-partial"))
    ]

    assert found == []


def test_every_icon_that_is_named_exists():
    named = re.compile(
        r"<c-icon\s+name=\"([a-z0-9-]+)\"|<c-(?:button|badge|stat|empty|banner|dialog)\b[^>]*?\sicon=\"([a-z0-9-]+)\""
    )
    found = {
        f"{name}: {icon}"
        for name, text in templates(skip=())
        for pair in named.findall(text)
        if (icon := pair[0] or pair[1]) not in icons()
    }

    assert found == set()


def test_every_component_that_is_used_exists():
    known = {path.stem.replace("_", "-") for path in (TEMPLATES / "cotton").glob("*.html")}
    known |= {"vars", "slot"}
    found = {
        f"{name}: {tag}"
        for name, text in templates(skip=())
        for tag in re.findall(r"<c-([a-z-]+)", text)
        if tag not in known
    }

    assert found == set()


UNSEEN = re.compile(
    r"{% block (?:main|body)_class %}.*?{% endblock %}"
    r"|{% blocktranslate.*?{% endblocktranslate %}"
    r"|{% verbatim %}.*?{% endverbatim %}"
    r"|<(?P<tag>code|kbd|pre|script|samp)\b.*?</(?P=tag)>",
    re.S,
)
CODE = re.compile(r"{%.*?%}|{{.*?}}", re.S)
TAG = re.compile(r"<[/!]?[a-zA-Z](?:\"[^\"]*\"|'[^']*'|[^>\"'])*>|&[a-z]+;", re.S)
WORD = re.compile(r"[A-Za-z][A-Za-z]+")
# `:label="x"` is a variable; `label="x"` is what people read or hear. Placeholders are samples.
SPOKEN = re.compile(
    r"(?<![:\w-])(?:aria-label|title|alt|label|hint|help)=(?:\"([^\"]*)\"|'([^']*)')"
)


def words_of(text):
    text = CODE.sub(" ", UNSEEN.sub(" ", text))
    spoken = " ".join("".join(pair) for pair in SPOKEN.findall(text))
    words = WORD.findall(TAG.sub(" ", text) + spoken)
    return [word for word in words if word not in SAME_EVERYWHERE and not word.isupper()]


def test_every_word_that_people_read_is_marked_for_translation():
    found = [
        f"{name}: {word}"
        for name, text in templates(skip=(*ADMIN, *FOR_BUILDERS, "cotton/_"))
        for word in words_of(text)
    ]

    assert found == []


def test_the_check_for_words_sees_text_and_attributes_and_nothing_else():
    seen = words_of('<p title="One" :label="two">Three {{ four }}<code>five</code>{% if six %}</p>')

    assert seen == ["Three", "One"]
