"""Machines: a gateway, a live node, healthy cards, workers."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, Max, Min, Q
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from rental.operate.fleet import GIVEN_UP
from rental.operate.setup.steps import State, Step, when
from rental.operate.words import moment
from rental.records.models import PeriodicRun
from rental.tenants.models import User
from scheduler.models import Gpu, GpuHealth, LivenessStatus, Node
from scheduler.services.liveness import listening_since

# Settle runs once an hour; a worker that missed one is not working.
SETTLES_EVERY: Final = timedelta(minutes=75)


def check_machines(*, now: datetime) -> Iterator[Step]:
    listening = listening_since(now=now)
    yield Step(
        key="gateway",
        title=_("The gateway listens"),
        state=when(listening),
        says=_("Listening without a break since %(time)s.") % {"time": moment(listening)}
        if listening
        else _("No gateway has written that it listens."),
        why=_("Nodes dial the gateway. Without it none is heard, and nothing can be placed."),
        command="" if listening else "manage.py up",
    )
    nodes = Node.objects.exclude(GIVEN_UP).aggregate(
        known=Count("pk"), live=Count("pk", filter=Q(liveness__status=LivenessStatus.LIVE))
    )
    yield Step(
        key="node",
        title=_("A node is enrolled and live"),
        state=when(nodes["live"]),
        says=gettext("%(live)s of %(known)s enrolled nodes are live.") % nodes
        if nodes["known"]
        else _("No node is enrolled."),
        why=_("A node brings the GPUs. One command on the machine enrols it with a token."),
        url=reverse("operate:fleet") if nodes["known"] else "",
        label=_("Fleet"),
        enrols=True,
    )
    yield _gpus()
    yield Step(
        key="runtime",
        title=_("Containers on real GPUs"),
        state=State.LATER,
        says=_(
            "This version drives no real GPU and starts no container. A node's GPUs are simulated, "
            "and an instance is a process of the machine (runtime “local”), isolated from nothing."
        ),
        why=_(
            "Look, rehearse and set prices with it; let no stranger onto a machine of yours yet."
        ),
    )
    yield _background(now=now)


def _gpus() -> Step:
    given_up = Node.objects.filter(GIVEN_UP)
    found = Gpu.objects.exclude(node__in=given_up).aggregate(
        well=Count("pk", filter=Q(health=GpuHealth.HEALTHY)),
        sick=Count("pk", filter=~Q(health=GpuHealth.HEALTHY)),
        models=Count("model", distinct=True),
    )
    says: Any = _("No node has reported a GPU.")
    if found["well"] or found["sick"]:
        says = gettext("%(well)s healthy GPUs of %(models)s models; %(sick)s with a fault.") % found
    return Step(
        key="gpus",
        title=_("GPUs are reported"),
        state=when(found["well"]) if not found["sick"] else State.ADVISED,
        says=says,
        why=_("Only a healthy GPU is sold. A fault shows on the fleet page with its reason."),
        url=reverse("operate:fleet") + ("?state=trouble" if found["sick"] else ""),
        label=_("Fleet"),
    )


def _background(*, now: datetime) -> Step:
    last = PeriodicRun.objects.aggregate(at=Max("taken_at"))["at"]
    begun = User.objects.aggregate(at=Min("created_at"))["at"]
    is_fresh = last is not None and now - last < SETTLES_EVERY
    is_young = begun is None or now - begun < SETTLES_EVERY
    return Step(
        key="worker",
        title=_("Work in the background is done"),
        state=when(is_fresh, State.SOON if is_young else State.ADVISED),
        says=_("Last settled at %(time)s.") % {"time": moment(last)}
        if last
        else _("Nothing was settled yet: that happens 7 minutes after each full hour."),
        why=_(
            "Workers place, stop, charge and warn. Without them orders wait and nothing is charged."
        ),
    )
