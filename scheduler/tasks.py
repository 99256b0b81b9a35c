"""What beat starts. Each is safe to run twice and at once."""

from celery import shared_task

from rental.records.clock import database_now
from scheduler.services import liveness
from scheduler.services.recount import recount as count_again


@shared_task(name="scheduler.watch_nodes", ignore_result=True)
def watch_nodes(**_from_newer_senders: object) -> None:
    """Every 3 s: who is suspect, lost, live again."""
    liveness.watch_nodes(now=database_now())


@shared_task(name="scheduler.recount", ignore_result=True)
def recount(**_from_newer_senders: object) -> None:
    """Nightly: counters against rows, and old gateways' rows away."""
    count_again()
    liveness.forget_gateways(now=database_now())
