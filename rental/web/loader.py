"""
Templates with their icons drawn once, when they are compiled.

A page has some seventy icons, and each cost a component of its own at every rendering: more than
half of what a plain page cost (benchmarks.console). ``<c-icon name="x" class="y" />`` becomes the
SVG itself, ``<c-icon :name="link.icon" />`` becomes a tag; whatever else is said stays cotton's.
"""

import re
from typing import Final

from django_cotton.cotton_loader import Loader as CottonLoader

from rental.web.icons import draw

_ICON: Final = re.compile(
    r'<c-icon (?P<bound>:?)name="(?P<name>[\w.-]+)"(?: class="(?P<css>[^"{}]*)")? ?/>'
)
DEFAULT_CSS: Final = "size-4"  # as templates/cotton/icon.html has it


class Loader(CottonLoader):  # type: ignore[misc]  # untyped
    """cotton's, which compiles components; icons are none any more when it looks."""

    def _get_template_string(self, template_name: str) -> str:
        return draw_icons(super()._get_template_string(template_name))


def draw_icons(template: str) -> str:
    """
    Write the icons of a template out.

    :raises UnknownIcon: if one is named that is not there
    """
    return _ICON.sub(_written, template) if "<c-icon" in template else template


def _written(found: re.Match[str]) -> str:
    css = DEFAULT_CSS if found["css"] is None else found["css"]
    if found["bound"]:
        return f'{{% drawn {found["name"]} "{css}" %}}\n'
    return f"{draw(found['name'], css)}\n"  # the component's own last line ends so
