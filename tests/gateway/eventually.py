"""Waiting for a condition instead of for a time."""

import time


def eventually(condition, *, timeout=10.0):
    """Return the first true value of ``condition()``; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {timeout} s: {condition}")
