"""
What may be done with an instance now, and why not: one table for the services, the API and the
console, so that nothing is offered that would be refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from rental.instances.errors import InstanceLocked, NotPossibleNow
from rental.instances.models import Instance
from rental.instances.states import COMING_UP, InstanceState, state_word

Verb = Literal[
    "stop",
    "start",
    "restart",
    "release",
    "rename",
    "protect",
    "set_timers",
    "set_ssh_keys",
    "set_password_login",
    "set_failover",
    "reveal_password",
]
S = InstanceState

LIVE: Final = frozenset({S.QUEUED, *COMING_UP, S.RUNNING, S.MIGRATING})
# Whoever has asked for a release has nothing left to set.
KEPT: Final = frozenset(S) - {S.RELEASING, S.RECYCLED, S.DELETED}
STATES: Final[dict[Verb, frozenset[InstanceState]]] = {
    "stop": LIVE,
    "start": frozenset({S.STOPPED, S.FAILED}),
    "restart": frozenset({S.RUNNING}),
    "release": KEPT,
    "rename": frozenset(S) - {S.DELETED},
    "protect": KEPT,
    "set_timers": LIVE,  # they belong to a session; a start begins without them
    "set_ssh_keys": KEPT,
    "set_password_login": KEPT,
    "set_failover": KEPT,
    "reveal_password": KEPT,
}
# Locks under which nothing may be started; stopping and releasing stay possible.
LOCKS_AGAINST_START: Final = frozenset({"financial", "security", "maintenance", "operator"})
UNDER_LOCKS: Final[frozenset[Verb]] = frozenset({"start", "restart"})

Why = Literal[
    "", "role", "state", "locked", "protected", "no_password", "suspended", "arrears", "balance",
    "no_price", "unknown_secret",
]  # fmt: skip
WORDS: Final[dict[Why, Promise]] = {
    "role": _("Your role may look and not change anything."),
    "locked": _("The operator has locked it."),
    "protected": _("It is protected from release. Take the protection off in its settings first."),
    "no_password": _("Password log-in is off."),
    "suspended": _("The tenant is suspended: nothing can be started."),
    "arrears": _("There is an unpaid amount. Pay it first."),
    "balance": _("The balance does not cover half an hour of it."),
    "no_price": _("It has no price at present."),
    "unknown_secret": _("A secret that it names was removed."),
}


@dataclass(frozen=True, kw_only=True)
class Action:
    """``code``: why it is not legal in the ``state``, "" if it is; ``why``: the same in words."""

    verb: Verb
    state: str
    code: Why = ""

    @property
    def legal(self) -> bool:
        return not self.code

    @property
    def why(self) -> str:
        if self.code == "state":
            words = gettext("Not possible while it is: %(state)s.")
            return words % {"state": state_word(self.state).label}
        return str(WORDS[self.code]) if self.code else ""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """
    What a start asks for beside the instance. None: not looked up, so not held against it.

    ``left``: micro-units that are free for a hold. ``prices``: micro-units per hour, by price key.
    """

    is_active: bool = True
    owes: bool = False
    left: int | None = None
    secrets: frozenset[str] | None = None
    prices: Mapping[str, int] | None = None


NOTHING_KNOWN: Final = Conditions()


def check_state(instance: Instance, verb: Verb) -> None:
    """:raises NotPossibleNow: if the verb has no meaning in its state"""
    if S(instance.state) not in STATES[verb]:
        raise NotPossibleNow(verb=verb, state=instance.state)


def check_locks(instance: Instance, verb: Verb) -> None:
    """:raises InstanceLocked: if a lock forbids the verb"""
    if locks := _locks(instance, verb):
        raise InstanceLocked(verb=verb, locks=locks)


def _locks(instance: Instance, verb: Verb) -> list[str]:
    return sorted(LOCKS_AGAINST_START.intersection(instance.locks)) if verb in UNDER_LOCKS else []


def legal_actions(
    instance: Instance,
    may: Callable[[str], bool],
    conditions: Conditions = NOTHING_KNOWN,
) -> dict[Verb, Action]:
    """
    Return what can be done with the instance, legal or not, by verb.

    :param may: whether the caller may do a verb of ``permissions``
    """
    writes = may("instances:write")
    return {
        verb: Action(
            verb=verb,
            state=instance.state,
            code=_why_not(instance, verb, writes=writes, conditions=conditions),
        )
        for verb in STATES
    }


def legal_verbs(
    instance: Instance, *, writes: bool, conditions: Conditions = NOTHING_KNOWN
) -> list[Verb]:
    """Return the legal ones alone. ``writes``: whether the caller may change instances at all."""
    return [
        verb
        for verb in STATES
        if not _why_not(instance, verb, writes=writes, conditions=conditions)
    ]


def _why_not(instance: Instance, verb: Verb, *, writes: bool, conditions: Conditions) -> Why:
    if instance.state not in STATES[verb]:
        return "state"
    if not writes:
        return "role"
    if verb == "release" and instance.protected:
        return "protected"
    if verb == "reveal_password" and not instance.password_login:
        return "no_password"
    if _locks(instance, verb):
        return "locked"
    return _why_no_start(instance, conditions) if verb == "start" else ""


def _why_no_start(instance: Instance, conditions: Conditions) -> Why:
    if not conditions.is_active:
        return "suspended"
    if conditions.secrets is not None and not conditions.secrets.issuperset(instance.secrets):
        return "unknown_secret"
    price = None
    if conditions.prices is not None:
        price = conditions.prices.get(instance.price_key)
        if price is None:
            return "no_price"
    if conditions.owes:
        return "arrears"
    if price is not None and conditions.left is not None and conditions.left < -(-price // 2):
        return "balance"
    return ""
