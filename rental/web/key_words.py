"""Keys, scopes and what is wrong with them, in words."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from rental.instances.secrets import MOST_VALUE
from rental.refusals import refusal_of
from rental.tenants import permissions
from rental.tenants.errors import MalformedSshKey, ScopeExceedsRole, SshKeyExists
from rental.tenants.models import Role
from rental.tenants.ssh import MIN_RSA_BITS

WRONG_SSH_KEY: Final[dict[str, Promise]] = {
    "private_key": _("This is a private key. Keep it to yourself and paste the .pub file."),
    "options": _("Options before the key are not taken. Paste the key alone."),
    "lines": _("A public key is one line of text."),
    "algorithm": _("Keys of this kind are not taken. Use Ed25519."),
    "malformed": _("This is no whole public key. It begins with its kind, as in ssh-ed25519."),
}

NOUNS: Final[dict[str, Promise]] = {
    "catalog": _("Offers, images and prices"),
    "instances": _("Instances"),
    "billing": _("Balance and charges"),
    "ssh_keys": _("SSH keys"),
    "secrets": _("Secrets (names only)"),
    "keys": _("API keys"),
    "projects": _("Projects"),
    "members": _("Members"),
    "tenant": _("Tenant settings"),
    "audit": _("Audit log"),
}

# What most keys are for. Cut to what the role of the maker allows.
FOR_INSTANCES: Final = frozenset(
    {
        "catalog:read",
        "instances:write",
        "billing:read",
        "ssh_keys:read",
        "secrets:read",
        "projects:read",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noun:
    """A line of the table of scopes. ``may_write``: the maker's role allows it."""

    name: str
    label: str | Promise
    may_write: bool
    chosen: str = ""


def nouns_of(verbs: Collection[str], chosen: dict[str, str]) -> list[Noun]:
    """Return what a key can be given by somebody who may ``verbs``."""
    return [
        Noun(
            name=noun,
            label=label,
            may_write=f"{noun}:write" in verbs,
            chosen=chosen.get(noun, ""),
        )
        for noun, label in NOUNS.items()
        if f"{noun}:read" in verbs
    ]


def widest(verbs: Collection[str], role: str) -> list[str]:
    """Return the scopes that are all of ``verbs``; an owner's key grows with what is built."""
    if role == Role.OWNER and frozenset(verbs) == permissions.VERBS:
        return ["*"]
    return sorted(_shortest(verbs))


def only_reading(verbs: Collection[str]) -> list[str]:
    return sorted(verb for verb in verbs if verb.endswith(":read"))


def for_instances(verbs: Collection[str]) -> list[str]:
    return sorted(FOR_INSTANCES & frozenset(verbs))


def _shortest(verbs: Collection[str]) -> Iterable[str]:
    """Leave out ``x:read`` where ``x:write`` is there: it includes it."""
    return (v for v in verbs if v.replace(":read", ":write") not in verbs or v.endswith(":write"))


def scope_words(scope: str) -> str:
    """Return "Instances: change" for ``instances:write``."""
    if scope == "*":
        return gettext("Everything")
    noun, _colon, action = scope.partition(":")
    label = gettext("Everything") if noun == "*" else str(NOUNS.get(noun, noun))
    what = gettext("look") if action == "read" else gettext("change")
    return gettext("%(noun)s: %(what)s") % {"noun": label, "what": what}


def why_not(error: Exception) -> str:
    """Return what is wrong with what was typed; the API's own words where there are no better."""
    if isinstance(error, MalformedSshKey):
        if error.reason == "too_short":
            return gettext("An RSA key needs at least %(bits)s bits.") % {"bits": MIN_RSA_BITS}
        return str(WRONG_SSH_KEY.get(error.reason, error))
    if isinstance(error, SshKeyExists):
        return gettext("This key is in the list already.")
    if isinstance(error, ScopeExceedsRole):
        return gettext("A key cannot do more than your role allows.")
    refusal = refusal_of(error)
    return refusal.words if refusal else str(error)


def wrong_secret(field: str) -> str:
    if field == "name":
        return gettext(
            "Letters, digits and underscores, not beginning with a digit, and no name that the "
            "node sets itself (LD_, NVIDIA_, CUDA_MPS_, TESSERA_)."
        )
    return gettext("At most %(n)s characters of text.") % {"n": MOST_VALUE}
