"""Passes over many tenants: one that cannot be served stops no other."""

import uuid
from collections.abc import Callable, Sequence

import structlog
from django.db import InterfaceError, OperationalError

log = structlog.get_logger()


def halve_on_failure(
    tenant_ids: Sequence[uuid.UUID], act: Callable[[Sequence[uuid.UUID]], int], *, event: str
) -> int:
    """
    Return what ``act``, one transaction, gives for the tenants. If it fails it is done for each
    half, down to the tenant that fails alone: he is logged and left to the next pass.

    A database that is away or gave up fails for everybody alike, and is not asked again.
    """
    try:
        return act(tenant_ids)
    except Exception as error:
        middle = len(tenant_ids) // 2
        if middle == 0 or isinstance(error, OperationalError | InterfaceError):
            log.exception(event, tenants=len(tenant_ids), first=str(tenant_ids[0]))
            return 0
    return halve_on_failure(tenant_ids[:middle], act, event=event) + halve_on_failure(
        tenant_ids[middle:], act, event=event
    )
