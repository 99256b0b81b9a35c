"""Celery's doors to the records floor."""

from celery import shared_task

from rental.records import housekeeping, outbox
from rental.records.clock import database_now


@shared_task(name="records.relay_outbox", ignore_result=True)
def relay_outbox(**_from_newer_senders: object) -> None:
    outbox.relay(now=database_now())


@shared_task(name="records.housekeeping", ignore_result=True)
def keep_house(**_from_newer_senders: object) -> None:
    housekeeping.keep_house(now=database_now())
