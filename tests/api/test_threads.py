"""The web process keeps its threads, one request at a time in each."""

import asyncio
import threading

import pytest
from asgiref.testing import ApplicationCommunicator
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path

from rental.api import threads
from rental.api.threads import MOST_AT_WORK, MOST_IDLE, KeptThreads

held = threading.Event()
begun = threading.Semaphore(0)
names: list[str] = []


def quick(_request):
    names.append(threading.current_thread().name + str(threading.get_ident()))
    return HttpResponse("ok")


def slow(_request):
    begun.release()
    held.wait(10)
    return HttpResponse("late")


urlpatterns = [path("quick", quick), path("slow", slow)]


def caller(app, where):
    return ApplicationCommunicator(
        app,
        {
            "type": "http",
            "method": "GET",
            "path": where,
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
            "http_version": "1.1",
        },
    )


async def begin(app, where):
    one = caller(app, where)
    await one.send_input({"type": "http.request", "body": b""})
    return one


async def finish(one):
    start = await one.receive_output(10)
    await one.receive_output(10)
    await one.wait(10)
    return start["status"]


@pytest.fixture
def app():
    held.clear()
    names.clear()
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[]):
        yield KeptThreads()
    held.set()


async def test_requests_one_after_another_share_a_thread(app):
    for _ in range(5):
        assert await finish(await begin(app, "/quick")) == 200
    assert len(set(names)) == 1


async def test_requests_at_once_have_threads_of_their_own_and_few_are_kept(app):
    waiting = [await begin(app, "/slow") for _ in range(MOST_AT_WORK - 1)]
    for _ in waiting:
        assert await asyncio.to_thread(begun.acquire, True, 10)
    assert await finish(await begin(app, "/quick")) == 200  # nobody stands behind a slow one
    held.set()
    assert [await finish(one) for one in waiting] == [200] * len(waiting)
    assert len(app._idle) == MOST_IDLE


async def test_one_computes_at_a_time_until_it_is_slow(app, monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE", 600)
    first = await begin(app, "/slow")
    assert await asyncio.to_thread(begun.acquire, True, 10)

    second = await begin(app, "/quick")

    assert await second.receive_nothing(0.2)  # the first may still be computing
    held.set()
    assert [await finish(first), await finish(second)] == [200, 200]


async def test_more_than_there_are_connections_wait_for_their_turn(app):
    working = [await begin(app, "/slow") for _ in range(MOST_AT_WORK)]
    for _ in working:
        assert await asyncio.to_thread(begun.acquire, True, 10)
    late = [await begin(app, "/slow") for _ in range(4)]
    quick = await begin(app, "/quick")
    assert await quick.receive_nothing(0.2)
    assert not begun.acquire(blocking=False)  # nobody else has begun

    held.set()

    assert [await finish(one) for one in [*working, *late, quick]] == [200] * (MOST_AT_WORK + 5)
    assert len(app._idle) == MOST_IDLE  # the rest has ended


async def test_a_thread_whose_caller_left_is_not_given_to_the_next(app):
    left = await begin(app, "/slow")
    assert await asyncio.to_thread(begun.acquire, True, 10)
    await left.send_input({"type": "http.disconnect"})
    await asyncio.sleep(0)
    assert await finish(await begin(app, "/quick")) == 200
    held.set()
    await left.wait(10)
    with pytest.raises(ValueError, match="speaks HTTP"):
        await app({"type": "websocket"}, None, None)
