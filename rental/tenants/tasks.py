"""Celery finds tasks by app; those of the records floor live in this one."""

from celery import shared_task

from rental.records.clock import database_now
from rental.records.tasks import keep_house, relay_outbox
from rental.tenants.services import housekeeping

__all__ = ["forget_past", "keep_house", "relay_outbox"]


@shared_task(name="tenants.housekeeping", ignore_result=True)
def forget_past(**_from_newer_senders: object) -> None:
    housekeeping.forget_past(now=database_now())
