"""Ingest on the real database: the maximum is kept, strangers change nothing, nobody deadlocks."""

import random
import threading
import uuid
from datetime import timedelta

import pytest
from django.db import connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from agents.protocol import RunReport, Stretch
from billing.metering import UsageReport, record
from billing.models import Run
from billing.models import Stretch as Row
from rental.records.ids import to_text
from tests.factories.billing import NOON, TICK, make_run, make_tenant, report

pytestmark = pytest.mark.django_db


def rows(run):
    found = Row.objects.filter(run_id=run.id).order_by("from_tick")
    return list(found.values_list("from_tick", "until_tick", "net_out"))


def test_the_first_readiness_starts_the_run_once_and_never_before_it_opened():
    run = make_run(make_tenant(), started=False)
    report(run, at=NOON + timedelta(seconds=10), age_ms=3_000)
    report(run, at=NOON + timedelta(seconds=60), age_ms=1_000)
    run.refresh_from_db()
    assert run.started_at == NOON + timedelta(seconds=7)

    early = make_run(make_tenant(), started=False)
    report(early, at=NOON + timedelta(seconds=10), age_ms=30_000)
    early.refresh_from_db()
    assert early.started_at == NOON


def test_readiness_and_ticks_in_one_frame_are_both_kept():
    run = make_run(make_tenant(), started=False)
    report(run, (0, 5), at=NOON + 5 * TICK, age_ms=30_000)
    assert rows(run) == [(0, 5, 0)]


def test_duplicates_replays_and_disorder_keep_the_maximum():
    run = make_run(make_tenant())
    for until, out in [(3, 30), (9, 90), (5, 50), (9, 90), (9, 80)]:
        report(run, (0, until), at=NOON + 100 * TICK, net_out=out)
    assert rows(run) == [(0, 9, 90)]


def test_a_fast_clock_is_charged_at_most_what_time_has_passed():
    run = make_run(make_tenant())
    report(run, (0, 11), at=NOON + timedelta(seconds=54, microseconds=1))
    run.refresh_from_db()
    assert (rows(run), run.suspect) == ([(0, 10, 0)], False)
    report(run, (0, 106), at=NOON + 100 * TICK)
    run.refresh_from_db()
    assert (rows(run), run.suspect) == ([(0, 100, 0)], True)


def test_a_report_for_another_nodes_run_changes_no_row():
    run = make_run(make_tenant(), started=False)
    stranger = uuid.uuid4()
    refusals = report(run, (0, 5), at=NOON + 5 * TICK, age_ms=30_000, node=stranger)
    run.refresh_from_db()
    assert (run.started_at, rows(run)) == (None, [])
    assert [(r.node_id, r.run) for r in refusals] == [(stranger, str(run.id))]


def test_a_run_is_known_by_its_public_id_too():
    run = make_run(make_tenant())
    sent = RunReport(run=to_text("run", run.id), stretches=[Stretch(from_tick=0, until_tick=2)])
    assert record(reports=[UsageReport(run.reporter, NOON + 2 * TICK, [sent])]) == []
    assert rows(run) == [(0, 2, 0)]


BAD = [
    RunReport(run="nonsense"),
    RunReport(run="run_" + "z" * 26),
    RunReport(run="{},\x00'"),
    *(
        RunReport(run=str(uuid.uuid4()), stretches=[Stretch(**seen)])
        for seen in (
            {"from_tick": -1, "until_tick": 5},
            {"from_tick": 5, "until_tick": 5},
            {"from_tick": 6, "until_tick": 5},
            {"from_tick": 0, "until_tick": 2**70},
            {"from_tick": 0, "until_tick": 5, "net_out": -1},
            {"from_tick": 0, "until_tick": 5, "net_in": 2**63},
        )
    ),
]


@pytest.mark.parametrize("bad", BAD)
def test_one_malformed_report_among_a_thousand_is_refused_alone(bad):
    run = make_run(make_tenant())
    frames = [
        UsageReport(
            run.reporter,
            NOON + 2000 * TICK,
            [RunReport(run=str(run.id), stretches=[Stretch(from_tick=n, until_tick=n + 1)])],
        )
        for n in range(999)
    ]
    frames.insert(500, UsageReport(run.reporter, NOON + 2000 * TICK, [bad]))
    refusals = record(reports=frames)
    assert [r.run for r in refusals] == [bad.run]
    assert len(rows(run)) == 999


def test_a_frame_that_the_database_refuses_is_found_by_halving():
    run, bad = make_run(make_tenant()), make_run(make_tenant())
    with connection.cursor() as cursor:
        cursor.execute(
            f"ALTER TABLE billing_stretch ADD CONSTRAINT planted CHECK (run_id <> '{bad.id}')"
        )
    frames = [
        UsageReport(
            one.reporter,
            NOON + 99 * TICK,
            [RunReport(run=str(one.id), stretches=[Stretch(from_tick=n, until_tick=n + 1)])],
        )
        for n, one in enumerate([run] * 13 + [bad] + [run] * 18)
    ]
    refusals = record(reports=frames)
    assert [(r.run, r.reason) for r in refusals] == [(str(bad.id), "cannot be stored")]
    assert len(rows(run)) == 31


def test_runs_closed_before_they_started_are_free_and_no_error():
    run = make_run(make_tenant(), started=False)
    Run.objects.filter(pk=run.id).update(closed_at=NOON, closed_at_tick=0)
    assert report(run, (0, 5), at=NOON + 5 * TICK, age_ms=30_000) == []
    assert rows(run) == []


@pytest.mark.django_db(transaction=True)
def test_two_gateways_with_the_same_runs_never_deadlock():
    tenant, node = make_tenant(), uuid.uuid4()
    runs = [make_run(tenant, node=node, started=False) for _ in range(40)]
    errors = []

    def gateway(seed):
        shuffle = random.Random(seed)
        try:
            for until in range(1, 16):
                order = shuffle.sample(runs, len(runs))
                sent = [
                    RunReport(
                        run=str(run.id),
                        ready_age_ms=until * 6000,
                        stretches=[
                            Stretch(from_tick=n, until_tick=n + until)
                            for n in shuffle.sample(range(4), 4)
                        ],
                    )
                    for run in order
                ]
                record(reports=[UsageReport(node, NOON + (until + 4) * TICK, sent)])
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=gateway, args=(seed,)) for seed in range(3)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert errors == []
    assert Row.objects.count() == 160
    assert set(Row.objects.filter(from_tick=3).values_list("until_tick", flat=True)) == {15}


reports = st.lists(
    st.tuples(st.sampled_from([0, 3, 8]), st.integers(1, 12), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


class AnyOrder(TestCase):
    """Any multiset, order and batching of reports leaves the same rows."""

    @given(seen=reports, data=st.data())
    @settings(max_examples=25, deadline=None)
    def test_order_and_batches_do_not_matter(self, seen, data):
        results = []
        for _ in range(2):
            with transaction.atomic():
                run = make_run(make_tenant())
                frames = [
                    UsageReport(
                        run.reporter,
                        NOON + (5 + late) * TICK,
                        [
                            RunReport(
                                run=str(run.id),
                                stretches=[Stretch(from_tick=a, until_tick=a + n, net_out=n)],
                            )
                        ],
                    )
                    for a, n, late in data.draw(st.permutations(seen + seen[:3]))
                ]
                cut = data.draw(st.integers(0, len(frames)))
                record(reports=frames[:cut])
                record(reports=frames[cut:])
                results.append(rows(run))
        assert results[0] == results[1]
