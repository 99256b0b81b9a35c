"""The simulated GPUs, the null runtime and the configuration files."""

import asyncio
import json
import os

import pytest

from agents.build import build_node, take_state_dir
from agents.drivers.base import DriverError
from agents.drivers.local.runtime import _choose_uid, _environment
from agents.drivers.null import NullRuntime
from agents.drivers.simulated import Faults, HangingRuntime, SimulatedGpus
from agents.files import read_json, write_json
from agents.settings import ConfigError, read_config, read_credential
from tests.agents.fakes import FakeClock, a_residence, an_order, labels_of, tenth
from tests.agents.test_node import story

GPUS = """
[node]
cpu_milli = 32000
ram_mib = 131072
disk_mib = 1000000
shared_allowed = true

[[gpus]]
uuid = "GPU-0"
index = 0
model = "A100"
memory_mib = 81920
serial = "S-0"
nvlink_group = 0
mig_capable = true

[[gpus]]
uuid = "GPU-1"
index = 1
model = "A100"
memory_mib = 81920
"""


@pytest.fixture
def gpus_file(tmp_path):
    path = tmp_path / "gpus.toml"
    path.write_text(GPUS)
    return path


@pytest.fixture
def config_file(tmp_path, gpus_file):
    path = tmp_path / "agent.toml"
    path.write_text(
        'url = "ws://127.0.0.1:1/agent/v1"\ncredential_file = "c.json"\nstate_dir = "state"\n'
        '[[nodes]]\nname = "node-a"\ngpus_file = "gpus.toml"\nruntime = "null"\n'
    )
    return path


def break_(gpus_file, **faults):
    gpus_file.with_name("gpus.toml.faults").write_text(json.dumps(faults))


def test_gpus_come_from_the_file_and_samples_move(gpus_file):
    gpus = SimulatedGpus(gpus_file)
    facts = gpus.facts()
    assert (facts.cpu_milli, facts.shared_allowed) == (32_000, True)
    first = facts.gpus[0]
    assert (first.model, first.memory_mib, first.serial) == ("A100", 81_920, "S-0")
    assert first.mig_capable
    in_use = [("alc_1", tenth(1, cell=0)), ("alc_2", tenth(1, cell=1))]
    idle, first, second = gpus.samples(0, in_use)
    assert (idle.util_percent, idle.allocation, idle.vram_mib) == (0, "", 0)
    assert [first.allocation, second.allocation] == ["alc_1", "alc_2"]
    assert 0 < first.vram_mib < tenth().vram_mib  # a slice's own, not the card's
    assert first.util_percent != second.util_percent
    assert first != gpus.samples(120_000, in_use)[1]


def test_a_gpu_falls_off_the_bus_by_the_control_file(gpus_file):
    gpus = SimulatedGpus(gpus_file)
    break_(gpus_file, gpu_lost=["GPU-0"])
    assert [g.healthy for g in gpus.facts().gpus] == [False, True]
    assert [s.gpu_uuid for s in gpus.samples(0, [])] == ["GPU-1"]
    with pytest.raises(DriverError, match="off the bus"):
        gpus.wipe([tenth()])
    gpus.wipe([tenth(1)])


def test_a_runtime_hangs_by_the_control_file(tmp_path, gpus_file):
    async def tell():
        runtime = HangingRuntime(
            NullRuntime(tmp_path / "null.json", FakeClock()), Faults(gpus_file)
        )
        order = an_order()
        await runtime.start(order, labels_of(order), [])
        assert (await runtime.inspect("alc_1.1")).state == "alive"
        break_(gpus_file, runtime_hang=["alc_1.1"])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(runtime.inspect("alc_1.1"), 0.01)

    story(tell())


def test_the_null_runtime_outlives_its_agent_but_not_a_boot(tmp_path):
    async def tell():
        clock = FakeClock()
        order = an_order()
        first = NullRuntime(tmp_path / "null.json", clock)
        await first.start(order, labels_of(order), [a_residence()])
        second = NullRuntime(tmp_path / "null.json", clock)
        found = await second.inspect("alc_1.1")
        assert (found.labels, found.state) == (labels_of(order), "alive")
        assert [f.residence for f in await second.list_residences()] == ["res_1"]
        await second.terminate("alc_1.1")
        assert (await second.inspect("alc_1.1")).exit_code == 143
        third = an_order("alc_2")
        await second.start(third, labels_of(third), [])
        clock.reboot()
        assert (
            await NullRuntime(tmp_path / "null.json", clock).inspect("alc_2.1")
        ).state == "ended"

    story(tell())


def test_a_configuration_is_read_flat_or_with_a_server_table(config_file, tmp_path):
    config = read_config(config_file)
    assert config.server.state_dir == str(tmp_path / "state")
    assert config.nodes[0].gpus_file == str(tmp_path / "gpus.toml")
    text = config_file.read_text()
    config_file.write_text("[server]\n" + text)
    assert read_config(config_file) == config
    as_json = tmp_path / "agent.json"
    as_json.write_text(
        json.dumps(
            {
                "url": "ws://127.0.0.1:1/agent/v1",
                "credential_file": "c.json",
                "state_dir": "state",
                "nodes": [{"name": "node-a", "gpus_file": "gpus.toml", "runtime": "null"}],
            }
        )
    )
    assert read_config(as_json) == config
    assert build_node(config, config.nodes[0], FakeClock()).facts.gpus[1].uuid == "GPU-1"


@pytest.mark.parametrize(
    ("text", "words"),
    [("nodes = 3", "nodes"), ("[[nodes]\n", "agent.toml"), ("surprise = 1", "surprise")],
)
def test_nonsense_stops_the_start_in_words(config_file, text, words):
    config_file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_config(config_file)


def test_a_missing_credential_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="enrol the agent first"):
        read_credential(tmp_path / "none")
    (tmp_path / "bare").write_text("tsa_x\n")
    assert read_credential(tmp_path / "bare").credential == "tsa_x"


def test_two_agents_do_not_share_a_state_directory(config_file):
    config = read_config(config_file)
    take_state_dir(config)
    with pytest.raises(ConfigError, match="another agent"):
        take_state_dir(config)


def test_uids_are_stable_spread_and_never_taken():
    first = _choose_uid("ins_1", set())
    assert first == _choose_uid("ins_1", set())
    assert first >= 1000
    assert _choose_uid("ins_1", {first}) != first
    assert _choose_uid("ins_2", set()) != first


def test_loader_and_gpu_variables_are_never_the_customers(tmp_path):
    order = an_order(spec={"env": {"A": "1", "LD_PRELOAD": "x", "NVIDIA_VISIBLE_DEVICES": "all"}})
    env = _environment(order, labels_of(order), tmp_path, tmp_path)
    assert env["A"] == "1"
    assert not [name for name in env if name.startswith(("LD_", "NVIDIA_"))]
    assert env["TESSERA_GPUS"] == "GPU-0"


def test_a_file_is_whole_or_not_there_when_the_disk_takes_only_a_part(tmp_path, monkeypatch):
    really = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: really(handle, data[:3]))
    write_json(tmp_path / "label.json", {"instance": "ins_1"})
    assert read_json(tmp_path / "label.json") == {"instance": "ins_1"}
