"""
What the samples of the last hours say about running instances: idle, larger than they need, too
small. Advice only: nothing here changes anything.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from django.db import connection

from rental.catalog.models import Offer, SliceKind
from rental.catalog.queries import Rate, rates_of
from rental.instances.models import Instance
from rental.instances.states import InstanceState
from scheduler.core.rightsize import Seen, needed_tenths

Kind = Literal["idle", "larger_than_needed", "too_small"]

WINDOW: Final = timedelta(hours=2)
SEEN: Final = 90  # minutes with samples in the window; of less we say nothing
IDLE_PERCENT: Final = 3  # busy in no minute more than this
FULL_PERCENT: Final = 95  # a slice that is this busy may want more than it has

# The mean of a minute, exceeded in five of a hundred; the instances are the tenant's own.
_USE: Final = """
    SELECT instance_id, count(*), max(util_max), max(vram_max),
           percentile_disc(0.95) WITHIN GROUP (ORDER BY round(util_sum::numeric / count))::int
      FROM rental_instancesampleminute
     WHERE tenant_id = %s AND instance_id = ANY(%s) AND minute >= %s AND minute < %s AND count > 0
     GROUP BY instance_id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    ``busy_percent``: of the slice, exceeded in 5 of 100 minutes; ``tenths``: of a card, had and
    needed with room to spare (the same where it is idle: it may be stopped, not cut). ``offer``:
    the smallest share on sale of the same card and isolation that would do, and its price now in
    micro-units an hour; None where it is idle, or where none is on sale.
    """

    instance: Instance
    kind: Kind
    since: datetime
    busy_percent: int
    vram_peak_mib: int
    tenths: int
    needed_tenths: int
    offer: Offer | None = None
    price: int | None = None

    @property
    def offer_code(self) -> str | None:
        return self.offer.code if self.offer else None


def list_findings(*, tenant_id: uuid.UUID, now: datetime) -> list[Finding]:
    """Return what there is to say, oldest instance first; four queries whatever the fleet."""
    running = (
        Instance.objects.of(tenant_id)
        .filter(state=InstanceState.RUNNING, session_ready_at__lte=now - WINDOW)
        .select_related("offer")
        .order_by("id")
    )
    instances = {instance.pk: instance for instance in running}
    if not instances:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_USE, [tenant_id, list(instances), now - WINDOW, now])
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
    found = []
    for instance_id, instance in instances.items():
        seen, busiest, vram, busy = rows.get(instance_id, (0, 0, 0, 0))
        if seen < SEEN:
            continue
        finding = _finding(instance, busiest=busiest, vram=vram, busy=busy, now=now)
        if finding is not None:
            found.append(finding)
    return _with_offers(found, now=now)


def _with_offers(findings: Sequence[Finding], *, now: datetime) -> list[Finding]:
    """Put on each the offer that it should rather have."""
    wanted = [finding for finding in findings if finding.kind != "idle"]
    if not wanted:
        return list(findings)
    shares = list(Offer.objects.filter(active=True, slice=SliceKind.SHARE).order_by("tenths"))
    rates = rates_of(shares, now=now)
    better = {}
    for finding in wanted:
        for offer in shares:
            price = _price_of(rates.get(offer.code, ()), finding.instance.market)
            if price is not None and _would_do(offer, finding):
                better[finding.instance.pk] = (offer, price)
                break
    return [
        replace(finding, offer=better[pk][0], price=better[pk][1])
        if (pk := finding.instance.pk) in better
        else finding
        for finding in findings
    ]


def _would_do(offer: Offer, finding: Finding) -> bool:
    has = finding.instance.offer
    return (
        offer.tenths >= finding.needed_tenths
        and (offer.tenths < has.tenths) == (finding.kind == "larger_than_needed")
        and offer.code != has.code
        and (offer.region, offer.gpu_model_name, offer.gpu_memory_mib, offer.isolation)
        == (has.region, has.gpu_model_name, has.gpu_memory_mib, has.isolation)
    )


def _price_of(rates: Iterable[Rate], market: str) -> int | None:
    return next((rate.price for rate in rates if rate.market == market), None)


def _finding(
    instance: Instance, *, busiest: int, vram: int, busy: int, now: datetime
) -> Finding | None:
    offer = instance.offer
    seen = Seen(tenths=offer.tenths, vram_mib=offer.vram_mib, busy_percent=busy, vram_peak_mib=vram)
    needed = needed_tenths(seen)
    kind: Kind
    if busiest <= IDLE_PERCENT:
        kind, needed = "idle", offer.tenths
    elif offer.slice == "share" and needed < offer.tenths:
        kind = "larger_than_needed"
    elif offer.slice == "share" and busy >= FULL_PERCENT and needed > offer.tenths:
        kind = "too_small"
    else:
        return None
    return Finding(
        instance=instance,
        kind=kind,
        since=now - WINDOW,
        busy_percent=busy,
        vram_peak_mib=vram,
        tenths=offer.tenths,
        needed_tenths=needed,
    )
