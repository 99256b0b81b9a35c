"""Tasks of instances: thin. Each reads PostgreSQL's clock first and runs one pass."""

from celery import shared_task

from rental.instances import drains, failover, housekeeping, passes, reclaims
from rental.records.clock import database_now


@shared_task(name="instances.place", ignore_result=True)
def place(**_from_newer_senders: object) -> None:
    passes.place(now=database_now())


@shared_task(name="instances.sync", ignore_result=True)
def sync(**_from_newer_senders: object) -> None:
    passes.sync(now=database_now())


@shared_task(name="instances.watch", ignore_result=True)
def watch(**_from_newer_senders: object) -> None:
    """Every second: who is lost, and what starts elsewhere for it."""
    failover.watch(now=database_now())


@shared_task(name="instances.drain", ignore_result=True)
def drain(**_from_newer_senders: object) -> None:
    drains.drain(now=database_now())


@shared_task(name="instances.deadlines", ignore_result=True)
def deadlines(**_from_newer_senders: object) -> None:
    now = database_now()
    passes.deadlines(now=now)
    reclaims.reclaim(now=now)


@shared_task(name="instances.compare", ignore_result=True)
def compare(**_from_newer_senders: object) -> None:
    passes.compare_everything(now=database_now())


@shared_task(name="instances.housekeeping", ignore_result=True)
def keep_house(**_from_newer_senders: object) -> None:
    housekeeping.keep_house(now=database_now())
