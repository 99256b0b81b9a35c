"""What every test shares. Servers are started by tests/settings.py, before anything is imported."""

import os

import pytest
from django.test import SimpleTestCase
from django.utils import translation
from hypothesis import settings

# 2 cores for everything: few examples while developing, more where nobody waits (HYPOTHESIS=ci).
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS", "quick"))


# Rooms with a pure core: what of their tests asks for no database is the core's.
ROOMS_WITH_CORES = {"billing", "scheduler"}


# What takes minutes begins first, so that at the end no process works alone. Real stacks mostly
# wait, browsers never do: they take turns.
LONGEST_FIRST = (
    "journeys/test_first_rental.py",
    "web/browser/test_every_page.py",
    "journeys/test_black_hole.py",
    "journeys/test_failover.py",
    "config/test_up.py",
    "journeys/test_first_visit.py",
    "web/browser/",
    "agents/test_agent.py",
    "instances/",
)


def _rank(item):
    path = item.path.as_posix()
    found = (number for number, part in enumerate(LONGEST_FIRST) if f"tests/{part}" in path)
    return next(found, len(LONGEST_FIRST))


def pytest_collection_modifyitems(items):
    """
    Order by length, and mark tests of the pure cores: `make test-pure` runs them with the database
    unreachable.
    """
    items.sort(key=_rank)
    for item in items:
        is_django_case = issubclass(item.cls or object, SimpleTestCase)
        asks = item.get_closest_marker("django_db") or "db" in item.fixturenames
        needs_database = is_django_case or asks
        if item.path.parent.name in ROOMS_WITH_CORES and not needs_database:
            item.add_marker(pytest.mark.pure)


def pytest_runtest_teardown():
    """A request leaves its language behind in the thread: nobody's test begins with another's."""
    translation.deactivate()
