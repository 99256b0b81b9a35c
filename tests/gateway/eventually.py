"""Waiting for a condition instead of for a time."""

import contextlib
import time


def eventually(condition, *, timeout=10.0, ignoring=()):
    """
    Return the first true value of ``condition()``; fail after ``timeout`` seconds.

    Exceptions of the classes in ``ignoring`` count as not yet.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(*ignoring):
            if value := condition():
                return value
        time.sleep(0.01)
    raise AssertionError(f"not within {timeout} s: {condition}")
