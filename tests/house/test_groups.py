"""Tests that share a stack or a browser run in one process of xdist; else each starts its own."""

import os

import pytest


@pytest.mark.xdist_group("house")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process runs everything")
def test_xdist_keeps_groups_together(request):
    assert request.node.nodeid.endswith("@house")
