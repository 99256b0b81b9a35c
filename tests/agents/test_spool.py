"""What survives a crash, a torn file and a full disk."""

import os
import shutil

import pytest

from agents.meter import Life, RunMeter, Traffic
from agents.protocol import Stretch
from agents.spool import KEEP_S, PhaseRecord, Spool, SpoolError
from tests.agents.fakes import BOOT, FakeClock, a_set, an_order

LIFE = Life("alc_1.1", "100", BOOT)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    yield spool
    spool.close()


def a_meter(clock, run="run_1"):
    return RunMeter.begin(
        run=run, allocation="alc_1", life=LIFE, now=clock.now(), traffic=Traffic()
    )


def tick(spool, meter, clock, ms):
    clock.advance(ms)
    spool.write_stretches(
        meter, meter.see(life=LIFE, now=clock.now(), traffic=Traffic()), wall_s=clock.now().wall_s
    )


def fill(spool, clock):
    for index in range(500):
        spool.write_run(a_meter(clock, f"run_full_{index}"), wall_s=0)


def take(spool, clock):
    return spool.take_usage(boot=BOOT, boot_ms=clock.now().boot_ms)


def test_what_holds_secrets_is_for_the_agents_user_only(tmp_path, clock):
    old_mask = os.umask(0)
    try:
        spool = Spool(tmp_path / "spool.sqlite")
        spool.write_desired(a_set(an_order(spec={"env": {"HF_TOKEN": "hf_plain"}})))
        files = list(tmp_path.iterdir())
        assert {path.name.partition("-")[2] for path in files} == {"", "wal", "shm"}
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        # and what was overwritten is not left in the file
        spool.write_desired(a_set())
        spool.close()
    finally:
        os.umask(old_mask)
    assert not any(b"hf_plain" in path.read_bytes() for path in tmp_path.iterdir())


def test_readiness_is_reported_before_any_tick(spool, clock):
    spool.write_run(a_meter(clock), wall_s=0)
    clock.advance(250)
    seq, (report,) = take(spool, clock)
    assert (seq, report.run, report.ready_age_ms, report.stretches) == (1, "run_1", 250, [])


def test_what_is_not_acked_is_sent_again_and_what_is_acked_is_not(spool, clock):
    meter = a_meter(clock)
    spool.write_run(meter, wall_s=0)
    tick(spool, meter, clock, 6_000)
    seq, _ = take(spool, clock)
    assert take(spool, clock) is None
    spool.resend()
    again, (report,) = take(spool, clock)
    assert again == seq + 1
    assert report.stretches == [Stretch(from_tick=0, until_tick=1)]
    spool.commit_usage(again)
    spool.resend()
    assert take(spool, clock) is None


def test_an_ack_does_not_cover_what_grew_after_the_frame(spool, clock):
    meter = a_meter(clock)
    spool.write_run(meter, wall_s=0)
    tick(spool, meter, clock, 6_000)
    seq, _ = take(spool, clock)
    tick(spool, meter, clock, 6_000)
    spool.commit_usage(seq)
    _, (report,) = take(spool, clock)
    assert report.stretches == [Stretch(from_tick=0, until_tick=2)]


def test_another_boot_does_not_claim_to_know_when_it_was_ready(spool, clock):
    spool.write_run(a_meter(clock), wall_s=0)
    _, (report,) = spool.take_usage(boot="boot-2", boot_ms=5_000)
    assert report.ready_age_ms is None


def test_a_new_agent_goes_on_where_the_dead_one_was(tmp_path, spool, clock):
    meter = a_meter(clock)
    spool.write_run(meter, wall_s=0)
    tick(spool, meter, clock, 13_000)
    kept = Spool(tmp_path / "spool.sqlite").read_meters()["run_1"]
    assert kept == meter
    clock.advance(11_000)
    (stretch,) = kept.see(life=LIFE, now=clock.now(), traffic=Traffic())
    assert (stretch.from_tick, stretch.until_tick) == (0, 4)


def test_a_new_epoch_replays_the_last_row_of_every_stretch(spool, clock):
    for name in ("run_1", "run_2"):
        meter = a_meter(clock, name)
        spool.write_run(meter, wall_s=0)
        tick(spool, meter, clock, 6_000)
        clock.suspend(60_000)
        tick(spool, meter, clock, 0)
        tick(spool, meter, clock, 12_000)
    seq, _ = take(spool, clock)
    spool.commit_usage(seq)
    assert take(spool, clock) is None
    spool.replay()
    _, reports = take(spool, clock)
    assert [len(report.stretches) for report in reports] == [2, 2]


def test_old_rows_go_after_35_days_but_never_before_they_are_acked(spool, clock):
    meter = a_meter(clock)
    spool.write_run(meter, wall_s=0)
    tick(spool, meter, clock, 6_000)
    spool.write_stretches(meter, meter.stop(now=clock.now()), wall_s=0)
    spool.write_run(meter, wall_s=0)
    spool.prune(wall_s=KEEP_S + 10)
    seq, reports = take(spool, clock)
    assert len(reports) == 1
    spool.commit_usage(seq)
    spool.prune(wall_s=KEEP_S - 10)
    spool.replay()
    seq, reports = take(spool, clock)
    assert len(reports) == 1
    spool.commit_usage(seq)
    spool.prune(wall_s=KEEP_S + 10)
    spool.replay()
    assert take(spool, clock) is None


def test_a_server_that_knows_a_higher_seq_gets_higher_ones(spool, clock):
    spool.write_run(a_meter(clock), wall_s=0)
    take(spool, clock)
    spool.raise_usage_seq(500)
    seq, reports = take(spool, clock)
    assert (seq, len(reports)) == (501, 1)


def test_orders_and_phases_survive(tmp_path, spool):
    desired = a_set(an_order(), version=7)
    record = PhaseRecord(
        allocation="alc_1", instance="ins_1", incarnation=1, phase="running", seq=4, at_boot=BOOT,
        at_ms=1,
    )  # fmt: skip
    spool.write_desired(desired)
    spool.write_phase(record)
    again = Spool(tmp_path / "spool.sqlite")
    assert again.read_desired() == desired
    assert again.read_phases() == {"alc_1": record}
    assert again.read_fact("phase_seq") == 4


def test_a_log_torn_at_any_place_leaves_a_whole_earlier_state(tmp_path, spool, clock):
    meter = a_meter(clock)
    spool.write_run(meter, wall_s=0)
    seen = {None, 0}
    for _ in range(5):
        tick(spool, meter, clock, 6_000)
        seen.add(meter.stretch.until_tick)
    whole = (tmp_path / "spool.sqlite-wal").read_bytes()
    for index, size in enumerate(range(0, len(whole), max(1, len(whole) // 25))):
        torn = tmp_path / f"torn-{index}"
        torn.mkdir()
        shutil.copy(tmp_path / "spool.sqlite", torn)
        (torn / "spool.sqlite-wal").write_bytes(whole[:size])
        after = Spool(torn / "spool.sqlite")
        kept = after.read_meters().get("run_1")
        assert (kept.stretch.until_tick if kept and kept.stretch else None) in seen
        after.write_run(meter, wall_s=0)
        assert after.read_meters()["run_1"].stretch == meter.stretch
        after.close()


def test_a_full_disk_is_said_in_words_and_loses_no_total(spool, clock):
    meter = a_meter(clock)
    spool.write_run(meter, wall_s=0)
    tick(spool, meter, clock, 6_000)
    spool.limit_pages(1)
    with pytest.raises(SpoolError, match="cannot be written: database or disk is full"):
        fill(spool, clock)
    clock.advance(60_000)
    spool.limit_pages(1_000_000)
    tick(spool, meter, clock, 0)
    assert spool.read_meters()["run_1"].stretch.until_tick == 11


def test_a_replay_comes_in_frames_of_bounded_size(spool, clock, monkeypatch):
    monkeypatch.setattr("agents.spool.RUNS_PER_USAGE", 2)
    for index in range(5):
        spool.write_run(a_meter(clock, f"run_{index}"), wall_s=0)
    sizes = []
    while (taken := take(spool, clock)) is not None:
        sizes.append(len(taken[1]))
    assert sizes == [2, 2, 1]
