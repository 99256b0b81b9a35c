"""Commits: what is written for many at once, and what one refusal costs the others."""

import contextlib
import gc
import math
import uuid
from collections import Counter

import pytest
from django.db import connection

from scheduler.models import Allocation, Request, Residence, Slice
from scheduler.services.recount import recount
from scheduler.services.write import _insert_into
from tests.factories.scheduler import (
    A_SHARE,
    make_allocation,
    make_node,
    make_request,
    make_tenant,
    place,
)

pytestmark = pytest.mark.django_db(transaction=True)

BATCH = 16


@pytest.fixture
def waiting():
    """Sixteen requests that one pass decides in this order, for room enough."""
    tenant = make_tenant()
    make_node(gpus=2)
    return [make_request(tenant=tenant, shape=A_SHARE) for _ in range(BATCH)]


class Callback:
    """Refuses one request; keeps in which transactions it was called, and how often for whom."""

    def __init__(self, bad, refuse):
        self.bad, self.refuse = bad, refuse
        self.transactions, self.times = set(), Counter()

    def __call__(self, placed):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            self.transactions.add(cursor.fetchone())
        self.times.update(one.request_id for one in placed)
        for one in placed:
            if one.request_id == self.bad:
                self.refuse(one)


def at_once(one):
    raise ValueError("the wallet is closed")


def at_commit(one):
    """Break a foreign key, which is only checked when the transaction ends."""
    Slice.objects.filter(allocation_id=one.allocation_id).update(tenant_id=uuid.uuid4())


@pytest.mark.parametrize("refuse", [at_once, at_commit])
@pytest.mark.parametrize("number", [0, 6, BATCH - 1])
def test_one_conflict_costs_the_batch_few_transactions_and_nobody_else_a_place(
    waiting, number, refuse, settings
):
    settings.SCHEDULER_BATCH = BATCH
    bad = waiting[number].id
    callback = Callback(bad, refuse)

    result = place(on_placed=callback)

    assert (len(result.placed), result.refused, result.stale) == (BATCH - 1, 1, 0)
    assert set(Request.objects.waiting().values_list("id", flat=True)) == {bad}
    extra = len(callback.transactions) - 1
    assert 1 <= extra <= math.log2(BATCH) + 1
    assert max(callback.times.values()) <= math.log2(BATCH) + 2  # it and its neighbour the most
    assert recount() == []


def test_without_a_conflict_a_batch_is_one_transaction(waiting, settings):
    settings.SCHEDULER_BATCH = BATCH // 2
    callback = Callback(None, at_once)

    result = place(on_placed=callback)

    assert (len(result.placed), len(callback.transactions)) == (BATCH, 2)
    assert set(callback.times.values()) == {1}


def test_a_node_that_was_written_in_parts_is_not_stale_for_the_next_batch(waiting, settings):
    settings.SCHEDULER_BATCH = BATCH // 2

    result = place(on_placed=Callback(waiting[1].id, at_once))

    assert (len(result.placed), result.refused, result.stale) == (BATCH - 1, 1, 0)


GIVEN = {
    Allocation: {
        "id", "request", "tenant", "instance_id", "node", "cpu_milli", "ram_mib", "run_id", "spec",
        "created_at",
    },
    Slice: {"id", "gpu", "allocation", "tenant", "mode", "cells", "vram_mib", "created_at"},
    Residence: {"id", "instance_id", "tenant", "node", "kind", "disk_mib", "created_at"},
}  # fmt: skip


@pytest.mark.parametrize("model", GIVEN)
def test_what_no_placement_decides_is_as_the_model_has_it(model):
    make_allocation()

    row = model.objects.first()

    rest = [field for field in model._meta.concrete_fields if field.name not in GIVEN[model]]
    assert rest
    assert {f.name: f.value_from_object(row) for f in rest} == {
        f.name: f.get_default() for f in rest
    }


def test_a_column_that_no_model_has_is_a_mistake():
    with pytest.raises(TypeError, match="flavour"):
        _insert_into(Slice, flavour="1")


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_the_garbage_collector_runs_again_after_a_pass(error):
    make_node()
    make_request()
    seen = []

    def on_placed(placed):
        seen.append(gc.isenabled())
        if error:
            raise error

    with contextlib.suppress(KeyboardInterrupt):
        place(on_placed=on_placed)

    assert (set(seen), gc.isenabled()) == ({False}, True)
