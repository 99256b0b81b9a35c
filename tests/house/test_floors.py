"""The floors hold (contracts in pyproject.toml), and nothing stands outside them."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_ROOMS = {"tests", "benchmarks"}


def test_each_floor_imports_only_floors_below_it():
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_of_the_house_is_under_the_contracts():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert packages - NOT_ROOMS == set(config["tool"]["importlinter"]["root_packages"])
