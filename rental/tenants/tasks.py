"""Celery finds tasks by app; those of the records floor live in this one."""

from rental.records.tasks import keep_house, relay_outbox

__all__ = ["keep_house", "relay_outbox"]
