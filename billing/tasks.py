"""Billing's periodic work. Each task is one pass, safe to run twice."""

from datetime import timedelta

import structlog
from celery import shared_task
from django.db import transaction

from billing.services import audit, exhaust
from billing.services import settle as settling
from rental.records.clock import database_now
from rental.records.periodic import slot_of, take_slot

log = structlog.get_logger()


@shared_task(name="billing.settle", ignore_result=True)
def settle(**_from_newer_senders: object) -> None:
    """Hourly. The slot only saves the work of a second delivery: settling twice changes nothing."""
    now = database_now()
    with transaction.atomic():
        taken = take_slot(name="billing.settle", slot=slot_of(now, every=timedelta(hours=1)))
    if taken:
        settling.settle(now=now)


@shared_task(name="billing.settle_closed", ignore_result=True)
def settle_closed(**_from_newer_senders: object) -> None:
    settling.settle_closed(now=database_now())


@shared_task(name="billing.close_exhausted", ignore_result=True)
def close_exhausted(**_from_newer_senders: object) -> None:
    exhaust.close_exhausted(now=database_now())


@shared_task(name="billing.audit", ignore_result=True)
def audit_ledger(**_from_newer_senders: object) -> None:
    """Nightly. What it finds is logged as errors; nothing is repaired by itself."""
    for finding in audit.find_errors(now=database_now()):
        log.error("ledger.error", invariant=finding.invariant, what=finding.text)
