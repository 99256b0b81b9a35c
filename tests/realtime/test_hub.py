"""Ending the hub."""

import asyncio

from rental.realtime.hub import end_tasks


async def test_a_loop_that_loses_a_cancellation_is_ended_all_the_same(monkeypatch):
    monkeypatch.setattr("rental.realtime.hub.CANCEL_AGAIN", 0.01)
    lost = 0

    async def forgetful():
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if lost == 2:
                    raise
                lost += 1

    task = asyncio.create_task(forgetful())
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await end_tasks([task])

    assert (lost, task.cancelled()) == (2, True)


async def test_nothing_to_end_ends_at_once():
    await end_tasks([])
