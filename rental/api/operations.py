"""Operations: commands on their way, with timed steps; a caller may wait for the end."""

import threading
import time
import uuid
from typing import Any

from django.db import connection
from rest_framework import serializers

from rental.api.contract import Contract, TenantView, operation
from rental.api.errors import Problem
from rental.api.fields import Instant, Output, PageQuery, Prefixed, Query
from rental.instances.models import Operation, OperationState
from rental.records.paging import Page

MOST_WAITING = 64  # each waiting request sits in a thread of its own; more are answered at once
LOOK_EVERY = 0.5  # seconds

_waiting = threading.BoundedSemaphore(MOST_WAITING)


class OperationStepOutput(Output):
    name = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        # Times inside ``steps`` are RFC 3339 text already.
        return {name: instance.get(name) for name in ("name", "started_at", "finished_at")}


class OperationErrorOutput(Output):
    code = serializers.CharField()
    detail = serializers.CharField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return {"code": instance.get("code", "failed"), "detail": instance.get("detail")}


class OperationOutput(Output):
    """A command on its way. A newer command ends an older one (``cancelled``)."""

    id = Prefixed("op")
    instance_id = Prefixed("ins")
    kind = serializers.CharField()
    state = serializers.CharField(help_text="running, succeeded, failed or cancelled")
    generation = serializers.IntegerField()
    steps = OperationStepOutput(many=True)
    percent = serializers.IntegerField(allow_null=True)
    error = OperationErrorOutput(allow_null=True)
    created_at = Instant()
    finished_at = Instant(allow_null=True)


class OperationQuery(PageQuery):
    instance_id = Prefixed("ins", required=False)
    state = serializers.ChoiceField(choices=OperationState.values, required=False)


class OperationWait(Query):
    wait = serializers.IntegerField(
        min_value=0,
        max_value=30,
        default=0,
        help_text="Answer when the operation has ended, or after so many seconds.",
    )


class OperationList(TenantView):
    @operation(
        Contract(
            name="list_operations",
            summary="List operations, newest first",
            verb="instances:read",
            output=OperationOutput,
            shape="page",
            query=OperationQuery,
        )
    )
    def get(self, query: dict[str, Any]) -> Page[Operation]:
        found = Operation.objects.of(self.tenant_id)
        for name in ("instance_id", "state"):
            if name in query:
                found = found.filter(**{name: query[name]})
        return self.page(found, query)


class OperationDetail(TenantView):
    @operation(
        Contract(
            name="get_operation",
            summary="Get an operation, or wait for its end",
            verb="instances:read",
            output=OperationOutput,
            query=OperationWait,
        )
    )
    def get(self, operation_id: uuid.UUID, query: dict[str, Any]) -> Operation:
        row = self._find(operation_id)
        if query["wait"] and row.state == OperationState.RUNNING and _waiting.acquire(False):
            try:
                return self._wait(row, time.monotonic() + query["wait"])
            finally:
                _waiting.release()
        return row

    def _wait(self, row: Operation, until: float) -> Operation:
        while row.state == OperationState.RUNNING and (left := until - time.monotonic()) > 0:
            # A waiting caller holds a thread, and neither a connection nor a transaction.
            if not connection.in_atomic_block:
                connection.close()
            time.sleep(min(LOOK_EVERY, left))
            row = self._find(row.pk)
        return row

    def _find(self, operation_id: uuid.UUID) -> Operation:
        row = Operation.objects.of(self.tenant_id).filter(pk=operation_id).first()
        if row is None:
            raise Problem(404, "not_found")
        return row
