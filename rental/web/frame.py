"""What stands around every page of a tenant: navigation, the other tenants, the balance."""

from dataclasses import dataclass
from functools import cached_property

from django.utils.functional import Promise

from billing.services.wallets import Balance, read_balance
from rental.web import nav
from rental.web.kept import print_of
from rental.web.visit import Visit


@dataclass
class Frame:
    """
    Read once a page; each member costs at most what its name says.

    :param known_balance: what the page has read anyway
    """

    visit: Visit
    known_balance: Balance | None = None

    @cached_property
    def groups(self) -> list[tuple[str | Promise, list[nav.Link]]]:
        return nav.groups_for(self.visit)

    @cached_property
    def bar(self) -> list[nav.Link]:
        """The entries at the foot of a phone."""
        return [link for _label, links in self.groups for link in links if link.entry.on_bar]

    @cached_property
    def actions(self) -> list[tuple[nav.Action, str]]:
        return nav.actions_for(self.visit)

    @cached_property
    def key(self) -> str:
        """All that navigation and palette are drawn from, but for the page (rental.web.kept)."""
        return print_of(self.visit.tenant.slug, sorted(self.visit.verbs))

    @cached_property
    def balance(self) -> Balance | None:
        """None for whoever may not see it."""
        if not self.visit.may("billing:read"):
            return None
        if self.known_balance is not None:
            return self.known_balance
        return read_balance(tenant_id=self.visit.tenant.id, now=self.visit.now)


def frame_of(visit: Visit, balance: object) -> Frame:
    """``balance``: what the page's context calls so, if it is a Balance."""
    return Frame(visit, balance if isinstance(balance, Balance) else None)
