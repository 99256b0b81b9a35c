"""The icons that `make assets` copied out of lucide: name -> what stands inside the <svg>."""

import json
from functools import cache
from html import escape

from django.conf import settings
from django.utils.safestring import SafeString, mark_safe

PATH = settings.BASE_DIR / "static" / "dist" / "icons.json"


class UnknownIcon(LookupError):
    """The name is not in static/icons.txt, or `make assets` has not run since it is."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no icon {name!r}: add it to static/icons.txt and run make assets")
        self.name = name


@cache
def icons() -> dict[str, str]:
    loaded: dict[str, str] = json.loads(PATH.read_text(encoding="utf-8"))
    return loaded


@cache
def draw(name: str, css: str = "size-4") -> SafeString:
    """
    Return an inline SVG that screen readers skip: the words beside it say what it means.

    :raises UnknownIcon: see there
    """
    inside = icons().get(name)
    if inside is None:
        raise UnknownIcon(name)
    return mark_safe(  # the name is known, the class is escaped, the rest is lucide's
        f'<svg class="shrink-0 {escape(css)}" viewBox="0 0 24 24" fill="none" '
        f'stroke="currentColor" stroke-width="1.75" stroke-linecap="round" '
        f'stroke-linejoin="round" aria-hidden="true" focusable="false">{inside}</svg>'
    )
