"""A form acts once, however often its button is pressed."""

import hashlib
import json
import secrets
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest

from rental.records.idempotency import Answer, answer_once

FIELD = "once"
# What may differ between two sendings of one form.
_LEFT_OUT = {"csrfmiddlewaretoken", FIELD}


def new_key() -> str:
    """Return what a form that is drawn anew carries in its hidden field ``once``."""
    return secrets.token_urlsafe(18)


def run_once(
    request: HttpRequest, *, tenant_id: uuid.UUID, now: datetime, run: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """
    Call ``run`` in a transaction; a repeated sending of the same form returns what it returned.
    See rental.records.idempotency for what copies meet.

    :raises SuspiciousOperation: if the form has no key
    """
    key = request.POST.get(FIELD, "")
    if not (8 <= len(key) <= 64 and key.isascii() and key.isprintable()):
        raise SuspiciousOperation("the form carries no key")
    fields = sorted((k, v) for k, v in request.POST.lists() if k not in _LEFT_OUT)
    text = json.dumps([request.path, fields], ensure_ascii=True)
    answer = answer_once(
        tenant_id=tenant_id,
        # Apart from the keys that programs choose.
        key=f"form:{key}",
        request_hash=hashlib.sha256(text.encode()).hexdigest(),
        now=now,
        run=lambda: Answer(status=200, body=run()),
    )
    body: dict[str, Any] = answer.body
    return body
