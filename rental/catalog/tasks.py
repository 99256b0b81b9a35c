"""The catalogue's periodic work."""

import structlog
from celery import shared_task

from rental.catalog import services
from rental.records.clock import database_now

log = structlog.get_logger()


@shared_task(name="catalog.forget_quotes", ignore_result=True)
def forget_quotes(**_from_newer_senders: object) -> None:
    log.info("catalog.housekeeping", quotes=services.forget_quotes(now=database_now()))
