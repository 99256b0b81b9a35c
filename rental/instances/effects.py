"""What a command does to money and data, said before it is given. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.models import Hold, Run
from billing.queries import list_segments
from billing.services.prices import UnknownPrice, price_at
from rental.instances.facts import disks_are_on
from rental.instances.models import Instance
from rental.instances.states import InstanceState

CommandVerb = Literal["stop", "start", "restart", "release"]
S = InstanceState

DISK: Final = _("the disk with everything on it")
IDENTITY: Final = _("name, id, keys and settings")
BILLS: Final = _("charges and events, to look up")
PROGRAMS: Final = _("programs that run, and what is only in memory")
PLACE: Final = _("the GPU: it is free for others, and a start waits for it")
TIMERS: Final = _("the timers of this session")
ADDRESS: Final = _("its address and host key")
ALL_DATA: Final = _("the disk with everything on it, for ever")

KEPT: Final[dict[CommandVerb, tuple[Promise, ...]]] = {
    "stop": (DISK, IDENTITY),
    "start": (DISK, IDENTITY),
    "restart": (DISK, IDENTITY, _("the GPU"), TIMERS),
    "release": (BILLS,),
}
LOST: Final[dict[CommandVerb, tuple[Promise, ...]]] = {
    "stop": (PROGRAMS, PLACE, TIMERS),
    "start": (),
    "restart": (PROGRAMS,),
    "release": (ALL_DATA, IDENTITY, ADDRESS),
}


@dataclass(frozen=True, kw_only=True)
class Effect:
    """
    Amounts in micro-units. ``burn_ends``/``burn_begins``: per hour, by this command. ``spent``:
    charged up to now; ``uncharged``: proven and not charged yet, which still comes. ``freed``: a
    hold that it gives back; ``needed``: what must be free for it. ``disk_per_hour``: what the kept
    disk costs on (nothing until storage has a price).
    """

    verb: CommandVerb
    burn_ends: int = 0
    burn_begins: int = 0
    spent: int = 0
    uncharged: int = 0
    freed: int = 0
    needed: int = 0
    disk_per_hour: int = 0
    kept: tuple[Promise, ...] = ()
    lost: tuple[Promise, ...] = ()


def effect_of(instance: Instance, verb: CommandVerb, *, now: datetime) -> Effect:
    """Return what the command would do now. A fixed number of queries."""
    lines = list_segments(instance.id, now=now)
    holds = Hold.objects.filter(instance_id=instance.id, state=Hold.State.PENDING)
    is_open = Run.objects.filter(instance_id=instance.id, closed_at__isnull=True).exists()
    price = _price(instance, now=now)
    begins = price if verb == "start" or (verb == "restart" and is_open) else 0
    has_disk = disks_are_on(instance) is not None
    return Effect(
        verb=verb,
        burn_ends=price if is_open and verb != "start" else 0,
        burn_begins=begins,
        spent=sum(line.amount for line in lines),
        uncharged=sum(line.estimate for line in lines),
        freed=sum(holds.values_list("amount", flat=True)) if verb in ("stop", "release") else 0,
        needed=-(-price // 2) if verb == "start" else 0,
        kept=tuple(words for words in KEPT[verb] if has_disk or words is not DISK),
        lost=_lost(instance, verb, has_disk=has_disk),
    )


def _price(instance: Instance, *, now: datetime) -> int:
    try:
        return price_at(price_key=instance.price_key, at=now).price
    except UnknownPrice:
        return 0


def _lost(instance: Instance, verb: CommandVerb, *, has_disk: bool) -> tuple[Promise, ...]:
    gone: list[Promise] = []
    if instance.state == S.QUEUED:
        gone += [PROGRAMS, PLACE]
    elif instance.state in (S.STOPPED, S.FAILED):
        gone += [PROGRAMS]
    if not has_disk:
        gone += [ALL_DATA]
    if instance.auto_stop_at is None and instance.max_duration_s is None:
        gone += [TIMERS]
    return tuple(words for words in LOST[verb] if words not in gone)
