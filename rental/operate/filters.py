"""What the templates of the operator's pages write numbers with."""

from fractions import Fraction

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from rental.operate import words
from rental.operate.fleet import Card, Cell
from scheduler.models import Market, SliceMode

register = template.Library()


@register.filter
def micro(amount: int | None) -> str:
    """Micro-units as an amount; a dash where there is none."""
    return "–" if amount is None else words.money(amount)


@register.filter
def exact(amount: int) -> str:
    """Micro-units as an amount to the last decimal place: where money is about to move."""
    return words.exact_money(amount)


@register.filter
def hours(tenth_ticks: Fraction) -> str:
    return words.card_hours(tenth_ticks)


@register.filter
def tenths(cells: int) -> str:
    """Tenths of cards as cards."""
    return f"{cells // 10}.{cells % 10}"


@register.filter
def percent_of(part: Fraction | int, whole: Fraction | int) -> str:
    return words.percent(part, whole)


@register.simple_tag
def gap() -> str:
    """What stands between two sentences of one paragraph."""
    return words.gap()


@register.simple_tag
def tiles_of() -> "Tiles":
    """The writer of a fleet's cells; one for a page."""
    return Tiles()


@register.filter
def written(card: Card, writer: "Tiles") -> SafeString:
    return writer.write(card)


class Tiles:
    """
    Writes cards as HTML: a head, and a link for each part that is held, with hatched gaps between.

    Not a template: 40 nodes have 3,200 cells, and ``{% url %}`` alone takes a second for them.
    """

    def __init__(self) -> None:
        self.instance = _around("admin:rental_instance_change")
        self.gpu = _around("admin:scheduler_gpu_change")
        self.free, self.since = escape(gettext("free")), escape(gettext("since"))
        self.idle = escape(gettext("idle"))
        self.modes = {mode.value: escape(str(mode.label)) for mode in SliceMode}
        self.markets = {market.value: escape(str(market.label)) for market in Market}
        self.texts: dict[str, str] = {}  # tenants and offers come again and again

    def write(self, card: Card) -> SafeString:
        # Every text of a row is escaped; the rest are numbers and UUIDs.
        head, tail = self.gpu
        taken = f"{card.taken}/{card.cells}" if card.taken else self.idle
        return mark_safe(
            f'<div class="op-card{"" if card.is_well else " sick"}"><header>'
            f'<a href="{head}{card.gpu.pk}{tail}"><span class="soft">{card.gpu.index}</span>'
            f' {self._escape(card.model)}</a><span class="soft num">{taken}</span></header>'
            f'<div class="op-tiles of{card.cells}">{"".join(map(self._cell, card.parts))}</div>'
            f"{self._fault(card)}</div>"
        )

    def _fault(self, card: Card) -> str:
        if card.is_well:
            return ""
        reason = f": {escape(card.gpu.health_reason)}" if card.gpu.health_reason else ""
        return f'<p class="why">{escape(card.gpu.get_health_display())}{reason}</p>'

    def _cell(self, cell: Cell) -> str:
        if not cell.tenant:
            word = self.free if cell.width > 2 else ""
            return f'<span class="op-cell free w{cell.width}">{word}</span>'
        tenant, offer = self._escape(cell.tenant), self._escape(cell.offer)
        held = " · ".join(
            filter(None, (self.modes[cell.mode], escape(cell.profile), self.markets[cell.market]))
        )
        facts = f"{tenant} · {offer} · {escape(cell.instance)} · {held}"
        spot = " spot" if cell.market == Market.SPOT else ""
        words = self._escape(cell.initials)
        if cell.profile and cell.width > 1:
            words = self._escape(cell.profile)
        elif cell.width > 2:
            words = tenant
        look = f"op-cell w{cell.width} m-{cell.mode}{spot}"
        head, tail = self.instance
        return (
            f'<a class="{look}" href="{head}{cell.instance_id}{tail}"'
            f' title="{facts} · {self.since} {cell.since}">{words}</a>'
        )

    def _escape(self, text: str) -> str:
        if text not in self.texts:
            self.texts[text] = escape(text)
        return self.texts[text]


def _around(name: str) -> list[str]:
    """Return what stands before and after the id in the address of a page."""
    nobody = "00000000-0000-0000-0000-000000000000"
    return reverse(name, args=[nobody]).split(nobody)
