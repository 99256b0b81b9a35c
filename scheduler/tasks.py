"""What beat starts. Each is safe to run twice and at once."""

from celery import shared_task

from rental.records.clock import database_now
from scheduler.services import housekeeping
from scheduler.services.recount import recount as count_again


@shared_task(name="scheduler.recount", ignore_result=True)
def recount(**_from_newer_senders: object) -> None:
    """Nightly: counters against rows."""
    count_again()


@shared_task(name="scheduler.housekeeping", ignore_result=True)
def keep_house(**_from_newer_senders: object) -> None:
    """Nightly: what is past its time."""
    housekeeping.keep_house(now=database_now())
