"""``burn`` and ``exhausts_at`` of wallets, anew from the rows. The arithmetic is core.runway's."""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from django.db import connection

from billing.core.rating import burn_per_hour
from billing.core.runway import Burn, exhausts_at
from billing.models import PriceVersion, Run, Wallet
from billing.services.due import tails_of, unposted_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FOREVER = datetime(2200, 1, 1, tzinfo=UTC)  # later than this is "never"


class _Group(NamedTuple):
    """Open runs of a tenant with one share whose anchors lie in one price version."""

    tenant_id: uuid.UUID
    price_key: str
    version_id: uuid.UUID
    share: Fraction
    runs: int
    anchors: int


def _micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def _groups(tenant_ids: Sequence[uuid.UUID]) -> Iterator[_Group]:
    """
    A run's anchor: the start of its first tick after the last proven one. Holes before it are
    free until somebody proves them. A run that has not reported its start may have run since it
    was opened, so its anchor is that.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH anchored AS (
                SELECT r.tenant_id, g.price_key, g.share_numerator, g.share_denominator,
                       COALESCE(r.started_at + COALESCE(seen.until_tick, 0) * interval '6 seconds',
                                r.opened_at) AS anchor
                FROM billing_run r
                JOIN billing_segment g
                    ON g.run_id = r.id AND g.until_tick IS NULL AND g.cover IS NULL
                LEFT JOIN (
                    SELECT s.run_id, max(s.until_tick) AS until_tick
                    FROM billing_stretch s JOIN billing_run r ON r.id = s.run_id
                    WHERE r.tenant_id = ANY(%(tenants)s) AND NOT r.settled AND r.closed_at IS NULL
                    GROUP BY s.run_id
                ) seen ON seen.run_id = r.id
                WHERE r.tenant_id = ANY(%(tenants)s) AND NOT r.settled AND r.closed_at IS NULL
            )
            SELECT a.tenant_id, a.price_key, v.id, a.share_numerator, a.share_denominator,
                   count(*), sum((extract(epoch FROM a.anchor) * 1000000)::bigint)
            FROM anchored a
            JOIN billing_priceversion v ON v.price_key = a.price_key AND v.during @> a.anchor
            GROUP BY 1, 2, 3, 4, 5
            """,
            {"tenants": list(tenant_ids)},
        )
        for tenant, key, version, numerator, denominator, runs, anchors in cursor.fetchall():
            yield _Group(tenant, key, version, Fraction(numerator, denominator), runs, int(anchors))


def _timelines(price_keys: set[str]) -> dict[str, list[PriceVersion]]:
    timelines: defaultdict[str, list[PriceVersion]] = defaultdict(list)
    for version in PriceVersion.objects.filter(price_key__in=price_keys).order_by("during"):
        timelines[version.price_key].append(version)
    return timelines


def _steps(timeline: Sequence[PriceVersion], first: uuid.UUID) -> tuple[tuple[int, int], ...]:
    """Return the price steps from the version ``first`` on. Without a price nothing burns."""
    steps: list[tuple[int, int]] = []
    known = False
    until: datetime | None = None
    for version in timeline:
        known = known or version.id == first
        if not known:
            continue
        if until is not None and until < version.during.lower:
            steps.append((_micros(until), 0))
        steps.append((_micros(version.during.lower), version.price))
        until = version.during.upper
    if until is not None:
        steps.append((_micros(until), 0))
    return tuple(steps)


def _mark_reckoned(tenant_ids: Sequence[uuid.UUID]) -> None:
    """
    Before reading: a run that changes while we read waits for our lock and clears the mark again.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH stale AS (
                SELECT id FROM billing_run WHERE tenant_id = ANY(%s) AND NOT reckoned
                ORDER BY id FOR NO KEY UPDATE
            )
            UPDATE billing_run r SET reckoned = true FROM stale WHERE r.id = stale.id
            """,
            [list(tenant_ids)],
        )


def _price_now(steps: Sequence[tuple[int, int]], now: int) -> int:
    return max(((since, price) for since, price in steps if since <= now), default=(0, 0))[1]


def _instant(ends: int | None, wallet: Wallet, now: datetime) -> datetime | None:
    """
    Return the instant to keep in the row. It never moves into the past behind the customer's
    back: money that turns out to be gone (a hole proven late) ends now, what the row had promised
    before stands.
    """
    if ends is None or ends > _micros(_FOREVER):
        return None
    at = max(ends, 0) * _MICROSECOND + _EPOCH
    if at > now:
        return at
    floor = now if wallet.exhausts_at is None else min(now, wallet.exhausts_at)
    return max(at, floor)


def reckon(
    wallets: Sequence[Wallet], *, now: datetime, unposted: Mapping[uuid.UUID, int] | None = None
) -> None:
    """
    Compute ``burn`` and ``exhausts_at`` of locked wallets anew, in memory and in the database.

    ``unposted``: what is proven and not charged, where the caller knows it (settle: nothing).
    """
    tenant_ids = [wallet.tenant_id for wallet in wallets]
    _mark_reckoned(tenant_ids)
    groups: defaultdict[uuid.UUID, list[_Group]] = defaultdict(list)
    for group in _groups(tenant_ids):
        groups[group.tenant_id].append(group)
    burning = [tenant_id for tenant_id in tenant_ids if tenant_id in groups]
    due = unposted_of(burning) if unposted is None else unposted
    closed = Run.objects.filter(tenant_id__in=burning, settled=False, closed_at__isnull=False)
    tails = tails_of(set(closed.values_list("tenant_id", flat=True)))
    timelines = _timelines({group.price_key for of in groups.values() for group in of})
    steps_of: dict[uuid.UUID, tuple[tuple[int, int], ...]] = {}

    changed = []
    for wallet in wallets:
        burns, per_hour = [], 0
        for group in groups[wallet.tenant_id]:
            steps = steps_of.get(group.version_id)
            if steps is None:
                steps = _steps(timelines[group.price_key], group.version_id)
                steps_of[group.version_id] = steps
            burns.append(Burn(steps, group.share, group.runs, group.anchors))
            per_hour += group.runs * burn_per_hour(
                price=_price_now(steps, _micros(now)), share=group.share
            )
        funds = (
            wallet.posted
            + wallet.credit_limit
            - due.get(wallet.tenant_id, 0)
            - tails.get(wallet.tenant_id, 0)
        )
        instant = _instant(exhausts_at(funds, burns), wallet, now)
        if (wallet.burn, wallet.exhausts_at) != (per_hour, instant):
            wallet.burn, wallet.exhausts_at = per_hour, instant
            changed.append(wallet)
    _save(changed)


def _save(wallets: Sequence[Wallet]) -> None:
    if not wallets:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_wallet w SET burn = n.burn, exhausts_at = n.exhausts_at"
            " FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[]) AS n(id, burn, exhausts_at)"
            " WHERE w.id = n.id",
            [
                [wallet.id for wallet in wallets],
                [wallet.burn for wallet in wallets],
                [wallet.exhausts_at for wallet in wallets],
            ],
        )
