"""The operator's first look of the day: what is there, what earns, who needs attention."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, Q

from billing.models import Wallet
from rental.instances.models import Instance
from rental.instances.states import InstanceState
from rental.operate.fleet import GIVEN_UP
from rental.operate.occupancy import Report, report
from scheduler.models import LivenessStatus, Node, QuarantineEvent, Request

SOON: Final = timedelta(hours=24)
ROWS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    known: int
    live: int
    cordoned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """``day``: figures of the last 24 hours. ``ending``: wallets that will be empty by then."""

    nodes: Nodes
    running: int
    waiting: int
    failed: int
    quarantine: int
    burn: int
    day: Report
    ending: list[Wallet]


def look(*, now: datetime) -> Overview:
    """Nine queries, whatever there is."""
    states = dict(
        Instance.objects.filter(state__in=(InstanceState.RUNNING, InstanceState.FAILED))
        .values_list("state")
        .annotate(Count("id"))
    )
    wallets = Wallet.objects.filter(exhausts_at__lt=now + SOON, exhausts_at__gte=now)
    return Overview(
        nodes=Nodes(
            **Node.objects.exclude(GIVEN_UP).aggregate(
                known=Count("pk"),
                live=Count("pk", filter=Q(liveness__status=LivenessStatus.LIVE)),
                cordoned=Count("pk", filter=Q(cordoned=True)),
            )
        ),
        running=states.get(InstanceState.RUNNING, 0),
        failed=states.get(InstanceState.FAILED, 0),
        waiting=Request.objects.waiting().count(),
        quarantine=QuarantineEvent.objects.filter(alive=True).count(),
        burn=sum(Wallet.objects.filter(burn__gt=0).values_list("burn", flat=True)),
        day=report(since=now - timedelta(days=1), until=now),
        ending=list(wallets.select_related("tenant").order_by("exhausts_at")[:ROWS]),
    )
