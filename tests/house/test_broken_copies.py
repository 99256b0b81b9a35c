"""Each of CI's checks fails when what it guards is broken, tried in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PARTS = (
    "config", "rental", "billing", "scheduler", "agents", "client", "tests", "templates",
    "static", "locale", "docs", "requirements", "manage.py", "pyproject.toml", ".env.example",
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture
def copy(tmp_path):
    """The tree as it stands, without environment and data."""
    for name in PARTS:
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, target)
    return tmp_path


def run(copy, *command):
    """Run a check as the Makefile does, without any server."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env |= {
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command, cwd=copy, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def floors(copy):
    return run(copy, str(BIN / "lint-imports"), "--no-cache")


def migrations(copy):
    arguments = ("-W", "ignore", "manage.py", "makemigrations", "--check", "--dry-run")
    return run(copy, sys.executable, *arguments)


def settings_documented(copy):
    test = "tests/house/test_docs.py::test_every_setting_is_documented"
    return run(copy, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test)


def openapi(copy):
    return run(copy, sys.executable, "manage.py", "openapi", "--check")


def import_upward(copy):
    path = copy / "billing/core/__init__.py"
    path.write_text(path.read_text() + "\nfrom rental.instances import models  # noqa\n")


def change_a_model(copy):
    path = copy / "rental/tenants/models/tenants.py"
    text = path.read_text()
    assert "max_length=" in text
    path.write_text(text.replace("max_length=", "max_length=7 + ", 1))


def add_a_setting(copy):
    path = copy / "config/settings.py"
    path.write_text(path.read_text() + '\nNOVELTY = env_int("NOVELTY", 1)\n')


def age_the_openapi_file(copy):
    path = copy / "docs/openapi.json"
    text = path.read_text()
    assert "balance" in text
    path.write_text(text.replace("balance", "ballance"))


BREAKS = {
    "a floor": (floors, import_upward, "BROKEN"),
    "a missing migration": (migrations, change_a_model, "Alter field"),
    "an undocumented setting": (settings_documented, add_a_setting, "NOVELTY"),
    "a stale OpenAPI file": (openapi, age_the_openapi_file, "openapi.json"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_the_check_passes_on_the_tree_and_fails_on_a_broken_copy(copy, what):
    check, break_it, word = BREAKS[what]
    code_before, output_before = check(copy)

    break_it(copy)
    code_after, output_after = check(copy)

    assert code_before == 0, output_before
    assert code_after != 0
    assert word in output_after
