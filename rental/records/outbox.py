"""The outbox: effects on the outside world (mail, webhook, provider), after the commit."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction

from rental.records.models import OutboxMessage

__all__ = ["OutboxMessage", "forget_before", "put", "relay"]

log = structlog.get_logger()

BATCH: Final = 100
# A message that was claimed and not sent comes again after 1, 2, 4 … minutes, at most an hour:
# long enough that two relays do not send it twice, short enough for a provider's hiccup.
FIRST_RETRY: Final = timedelta(minutes=1)
LAST_RETRY: Final = timedelta(hours=1)

KEEP: Final = timedelta(days=7)

Consumer = Callable[[OutboxMessage], None]


def put(*, topic: str, key: str, payload: dict[str, Any], now: datetime) -> None:
    """
    Write an effect down, in the transaction that causes it. The same (topic, key) is put once.

    ``payload`` holds ids and facts, not rendered text: the consumer renders, outside of any
    transaction.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an outbox message belongs into the transaction that causes it")
    OutboxMessage.objects.bulk_create(
        [OutboxMessage(topic=topic, key=key, payload=payload, created_at=now, due_at=now)],
        ignore_conflicts=True,
    )


def log_message(message: OutboxMessage) -> None:
    """The consumer of this issue: says that the message passed."""
    log.info("outbox.message", topic=message.topic, key=message.key)


def retry_after(attempts: int) -> timedelta:
    """Return how long the ``attempts``-th try (from 1) is given before the next one."""
    doublings = min(attempts - 1, 16)
    return min(FIRST_RETRY * (1 << doublings), LAST_RETRY)


def relay(*, now: datetime, consume: Consumer = log_message) -> int:
    """
    One pass: send what is due, at least once each; return how many were sent.

    Claim, send and mark are three steps, since no transaction may wait for the network. A relay
    that dies in between leaves its messages to the next one, after their retry time.
    """
    sent = 0
    for message in _claim(now=now):
        try:
            consume(message)
        except Exception:  # one bad message must not stop the others; it comes again
            log.exception("outbox.failed", topic=message.topic, key=message.key)
            continue
        OutboxMessage.objects.filter(pk=message.pk).update(sent_at=now)
        sent += 1
    return sent


@transaction.atomic
def _claim(*, now: datetime) -> list[OutboxMessage]:
    """Take a batch that no other relay holds, and put its next try off."""
    due = OutboxMessage.objects.filter(sent_at__isnull=True, due_at__lte=now).order_by(
        "due_at", "pk"
    )
    messages = list(due.select_for_update(skip_locked=True, no_key=True)[:BATCH])
    for message in messages:
        message.attempts += 1
        message.due_at = now + retry_after(message.attempts)
    OutboxMessage.objects.bulk_update(messages, ["attempts", "due_at"])
    return messages


def forget_before(moment: datetime) -> int:
    """Delete the messages sent before ``moment``; what is unsent is never deleted."""
    return OutboxMessage.objects.filter(sent_at__lt=moment).delete()[0]
