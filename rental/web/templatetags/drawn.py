"""The tag that rental.web.loader writes for an icon whose name the page decides. A builtin."""

from django import template
from django.utils.safestring import SafeString

from rental.web.icons import draw

register = template.Library()


@register.simple_tag
def drawn(name: str, css: str) -> SafeString:
    """{% drawn link.icon "size-5" %}"""
    return draw(str(name), css)
