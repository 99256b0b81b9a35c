"""Structured logs: one event a line, JSON or for a terminal, with no secret in it."""

import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

# Our own credentials are recognizable wherever they stand; the rest is known by its name.
CREDENTIAL = re.compile(r"\b(ts[rae])_[0-9A-Za-z_-]{20,}")
URL_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@/\s]+@")
SECRET_NAME = re.compile(r"passw|secret|token|authorization|credential|cookie|private_key", re.I)
# What PostgreSQL tells of a row that it refused: all of its columns.
FAILING_ROW = re.compile(r"(Failing row contains )\(.*?\)(?=\.\s|\.?\Z)", re.DOTALL)
HIDDEN = "(hidden)"


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide credentials and everything that is named like one, at any depth."""
    for name in event:
        event[name] = HIDDEN if SECRET_NAME.search(name) else clean(event[name])
    return event


def clean(value: Any) -> Any:
    """Return ``value`` without credentials. Numbers and other objects pass as they are."""
    if isinstance(value, str):
        value = FAILING_ROW.sub(rf"\1{HIDDEN}", value)
        return URL_PASSWORD.sub(rf"\1{HIDDEN}@", CREDENTIAL.sub(rf"\1_{HIDDEN}", value))
    if isinstance(value, dict):
        return {
            name: HIDDEN if SECRET_NAME.search(str(name)) else clean(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    return value


def _before_output() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def configure(*, output: str, level: str) -> dict[str, Any]:
    """
    Set structlog up and return Django's LOGGING, so that both end in the same lines.

    :param output: "json" or "console"
    """
    structlog.configure(
        processors=[*_before_output(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Any = structlog.processors.JSONRenderer()
    if output == "console":
        # Plain: the pretty formatter prints the local variables, secrets and all.
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    last: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        redact,  # after the exception became text: its message may hold a URL
        renderer,
    ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "event": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": last,
                "foreign_pre_chain": _before_output(),
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "event"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Every 404 and every frame is not an event.
            "django.request": {"level": "ERROR"},
            "uvicorn.error": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
        },
    }
