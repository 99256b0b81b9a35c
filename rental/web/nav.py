"""The console's navigation: one table. An entry is hidden from a role that lacks its verb."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.web.visit import Visit


@dataclass(frozen=True)
class Entry:
    """
    :param name: what a page puts into its context as ``nav``
    :param path: below /t/<slug>/
    :param keys: what jumps there ("g i")
    :param on_bar: stands on the bar at the foot of a phone; the rest is in the drawer
    """

    name: str
    label: str | Promise
    icon: str
    verb: str
    path: str
    keys: str = ""
    on_bar: bool = False


@dataclass(frozen=True)
class Group:
    label: str | Promise
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Action:
    """What the palette offers beside pages."""

    label: str | Promise
    icon: str
    verb: str
    path: str


GROUPS: Final = (
    Group(
        "",
        (
            Entry(
                "overview", _("Overview"), "layout-dashboard", "tenant:read", "", "g o", on_bar=True
            ),
            Entry("launch", _("Launch"), "rocket", "instances:write", "launch", "g l", on_bar=True),
            Entry(
                "instances", _("Instances"), "server", "instances:read", "instances", "g i",
                on_bar=True,
            ),
        ),
    ),
    Group(
        _("Money"),
        (Entry("billing", _("Billing"), "wallet", "billing:read", "billing", "g b", on_bar=True),),
    ),
    Group(
        _("Tenant"),
        (
            Entry("keys", _("Keys"), "key-round", "ssh_keys:read", "keys", "g k"),
            Entry("team", _("Team"), "users", "members:read", "team", "g t"),
            Entry("projects", _("Projects"), "folder", "projects:read", "projects", "g p"),
            Entry("audit", _("Audit"), "scroll-text", "audit:read", "audit", "g a"),
            Entry("settings", _("Settings"), "settings", "tenant:read", "settings", "g s"),
        ),
    ),
)  # fmt: skip

ACTIONS: Final = (
    Action(_("Launch an instance"), "plus", "instances:write", "launch"),
    Action(_("Add an SSH key"), "key-round", "ssh_keys:write", "keys"),
    Action(_("Invite a member"), "user-plus", "members:write", "team"),
)


@dataclass(frozen=True)
class Link:
    """An entry with its address, for one visitor."""

    entry: Entry
    url: str

    @property
    def element_id(self) -> str:
        return f"go-{self.entry.name}"


def groups_for(visit: Visit) -> list[tuple[str | Promise, list[Link]]]:
    """Return what the visitor may see, without empty groups."""
    found = []
    for group in GROUPS:
        links = [Link(e, f"{visit.home}{e.path}") for e in group.entries if visit.may(e.verb)]
        if links:
            found.append((group.label, links))
    return found


def actions_for(visit: Visit) -> list[tuple[Action, str]]:
    return [(a, f"{visit.home}{a.path}") for a in ACTIONS if visit.may(a.verb)]
