"""Habits that a person would forget: one door per state, one place for hints, no float in money."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = ("config", "rental", "billing", "scheduler")


def sources(*rooms):
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, ast.parse(path.read_text())


def place(path, node):
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def functions_around(tree):
    """Return the name of the function around each node."""
    names = {}

    def walk(node, name):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        names[node] = name
        for child in ast.iter_child_nodes(node):
            walk(child, name)

    walk(tree, "")
    return names


def test_billing_knows_no_float():
    found = [
        place(path, node)
        for path, tree in sources("billing")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.Name) and node.id == "float")
        or (isinstance(node, ast.Attribute) and node.attr == "FloatField")
    ]

    assert found == []


def test_an_instance_changes_state_only_in_move_to():
    found = []
    for path, tree in sources("rental"):
        around = functions_around(tree)
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                is_state = isinstance(target, ast.Attribute) and target.attr == "state"
                if is_state and around[node] not in {"move_to", "__init__"}:
                    found.append(place(path, node))

    assert found == []


def test_only_hints_publish_to_celery():
    found = [
        place(path, node)
        for path, tree in sources(*SERVER)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in {"delay", "apply_async", "send_task", "delay_on_commit"}
        and path.relative_to(ROOT) != Path("rental/records/hints.py")
    ]

    assert found == []


@pytest.mark.parametrize("core", ["billing/core", "scheduler/core"])
def test_a_pure_core_reads_no_clock(core):
    clocks = {"now", "utcnow", "today", "time", "monotonic", "perf_counter", "time_ns"}
    owners = {"datetime", "date", "time", "timezone"}
    found = [
        place(path, node)
        for path, tree in sources(core)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in clocks
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in owners
    ]

    assert found == []


def test_the_server_knows_only_the_protocol_of_the_agent():
    found = []
    for path, tree in sources(*SERVER, "client"):
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
                if node.module == "agents":
                    names = [f"agents.{alias.name}" for alias in node.names]
            found += [
                place(path, node)
                for name in names
                if name.split(".")[0] == "agents" and name != "agents.protocol"
            ]

    assert found == []


def test_every_task_is_in_the_beat_or_hinted_and_every_entry_exists():
    from config.celery import BEAT, app

    app.loader.import_default_modules()
    tasks = {name for name in app.tasks if not name.startswith("celery.")}
    hinted = {
        node.args[0].id
        for _path, tree in sources(*SERVER)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "hint"
        and node.args
        and isinstance(node.args[0], ast.Name)
    }

    assert set(BEAT) <= tasks
    assert {name for name in tasks - set(BEAT) if name.split(".")[-1] not in hinted} == set()
