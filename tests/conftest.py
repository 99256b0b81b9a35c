"""What every test shares. Servers are started by tests/settings.py, before anything is imported."""

import os

import pytest
from hypothesis import settings

# 2 cores for everything: few examples while developing, more where nobody waits (HYPOTHESIS=ci).
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS", "quick"))


def pytest_collection_modifyitems(items):
    """Tests below a folder or module named ``core`` are pure: `make test-pure` runs them alone."""
    for item in items:
        if "core" in item.path.parts or item.path.stem.startswith("test_core"):
            item.add_marker(pytest.mark.pure)
