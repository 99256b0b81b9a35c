"""The three tabs, of which a role sees what it may."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rental.web.visit import Visit

TABS = (
    ("ssh", _("SSH keys"), "ssh_keys:read", "keys"),
    ("api", _("API keys"), "keys:read", "keys/api"),
    ("secrets", _("Secrets"), "secrets:read", "keys/secrets"),
)


@dataclass(frozen=True)
class Tab:
    name: str
    label: str | Promise
    url: str


def tabs_of(visit: Visit) -> list[Tab]:
    return [
        Tab(name, label, f"{visit.home}{path}")
        for name, label, verb, path in TABS
        if visit.may(verb)
    ]
