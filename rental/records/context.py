"""What a log line is about: ids that every structlog event of a request or a pass carries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from structlog.contextvars import (
    bind_contextvars,
    bound_contextvars,
    clear_contextvars,
    get_contextvars,
)

# Closed, so that one id has one name in every log line.
FIELDS: Final = frozenset({"request_id", "tenant", "instance", "allocation"})


def _checked(facts: dict[str, Any]) -> dict[str, str]:
    if unknown := facts.keys() - FIELDS:
        raise ValueError(f"not a field of the log context: {sorted(unknown)}")
    return {name: str(value) for name, value in facts.items() if value is not None}


def bind(**facts: Any) -> None:
    """Add ids to every later event of this request or task; ``unbind_all`` ends it."""
    bind_contextvars(**_checked(facts))


def unbind_all() -> None:
    """Forget the ids; the entry points (middleware, task start) call it first."""
    clear_contextvars()


@contextmanager
def bound(**facts: Any) -> Iterator[None]:
    """Add ids to the events inside the block."""
    with bound_contextvars(**_checked(facts)):
        yield


def current_request_id() -> str | None:
    """Return the id of the request being served; audit events take it from here."""
    value = get_contextvars().get("request_id")
    return None if value is None else str(value)
