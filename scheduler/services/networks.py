"""Gives each tenant its private network in a region, centrally, once."""

import uuid
from collections.abc import Collection
from datetime import datetime
from ipaddress import IPv4Network

import structlog
from django.db import connection, transaction

from scheduler.errors import NetworksExhausted
from scheduler.models import PrivateNetwork
from scheduler.models.networks import PREFIX_LENGTH, SPACE

Key = tuple[uuid.UUID, str]

log = structlog.get_logger()

# Held to the end of the transaction by whoever gives one: two would choose the same.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('scheduler.networks'))"

_FIRST_FREE = """
SELECT (%(first)s::inet + number * %(size)s)::text
FROM generate_series(0::bigint, %(last)s) AS number
WHERE NOT EXISTS (
    SELECT 1 FROM scheduler_privatenetwork
    WHERE cidr && set_masklen(%(first)s::inet + number * %(size)s, %(length)s))
ORDER BY number LIMIT 1
"""


@transaction.atomic
def networks_of(keys: Collection[Key], *, now: datetime) -> dict[Key, IPv4Network]:
    """
    Return the network of each (tenant id, region code); the first free ones for who has none.

    Lock order: after nodes and GPUs, before runs; only a first placement takes the lock.

    :raises NetworksExhausted: if none is left; then none is given
    """
    given = _find(keys)
    if len(given) < len(set(keys)):
        with connection.cursor() as cursor:
            cursor.execute(_LOCK)
        given |= _find(keys)  # somebody may have been first
        for key in sorted(set(keys) - given.keys()):
            given[key] = _give(key, now=now)
    return given


def _find(keys: Collection[Key]) -> dict[Key, IPv4Network]:
    tenants = {tenant_id for tenant_id, _ in keys}
    rows = PrivateNetwork.objects.filter(tenant_id__in=tenants)
    found = {
        (tenant_id, region): cidr
        for tenant_id, region, cidr in rows.values_list("tenant_id", "region_id", "cidr")
    }
    return {key: found[key] for key in keys if key in found}


def _give(key: Key, *, now: datetime) -> IPv4Network:
    space = IPv4Network(SPACE)
    tenant_id, region = key
    with connection.cursor() as cursor:
        cursor.execute(
            _FIRST_FREE,
            {
                "first": str(space.network_address),
                "size": 1 << (32 - PREFIX_LENGTH),
                "last": (1 << (PREFIX_LENGTH - space.prefixlen)) - 1,
                "length": PREFIX_LENGTH,
            },
        )
        row = cursor.fetchone()
    if row is None:
        raise NetworksExhausted(SPACE)
    cidr = IPv4Network((row[0].partition("/")[0], PREFIX_LENGTH))
    PrivateNetwork.objects.create(tenant_id=tenant_id, region_id=region, cidr=cidr, created_at=now)
    log.info("scheduler.network_given", tenant=str(tenant_id), region=region, cidr=str(cidr))
    return cidr
