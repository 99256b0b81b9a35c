"""Samples on sockets, and what a page hears while Valkey is away or a page does not read."""

import time
import uuid

import pytest

from rental.instances.samples.points import Point
from rental.instances.samples.recent import recent
from rental.realtime import live as live_module
from rental.records.ids import to_text
from tests.factories.rental import make_image, make_offer, make_rich_tenant, order
from tests.factories.tenants import owner_of
from tests.gateway.eventually import eventually
from tests.realtime.conftest import sign_in
from tests.realtime.test_sockets import rename

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tenant(transactional_db):
    make_offer()
    make_image()
    return make_rich_tenant()


def test_points_reach_the_pages_that_draw_them_and_no_others(web, tenant):
    ours, other = order(tenant, count=2)
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.take("delayed", what="samples", **{"is": False})
    page.watch(charts=[to_text("ins", ours.pk)])
    eventually(lambda: web.hub._by_chart)

    recent().write([(other.pk, Point(9, 9, 9, 9, 9)), (uuid.uuid4(), Point(9, 9, 9, 9, 9))])
    recent().write([(ours.pk, Point(1_000, 50, 2048, 100, 60))])

    message = page.take("samples")
    assert (message["id"], message["s"]) == (to_text("ins", ours.pk), [[1_000, 50, 2048, 100, 60]])


def test_without_valkey_rows_go_on_and_the_page_is_told(relay, web, tenant):
    (instance,) = order(tenant)
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.take("delayed", what="samples", **{"is": False})

    relay.cut()
    page.take("delayed", what="samples", **{"is": True})
    version = rename(instance, "while Valkey is away")
    assert page.version_of(to_text("ins", instance.pk)) == version

    relay.mend()
    page.take("delayed", what="samples", **{"is": False}, timeout=15)


def test_a_page_that_does_not_read_is_left_and_costs_little(web, tenant, monkeypatch):
    monkeypatch.setattr(live_module, "STUCK", 1.0)
    (instance,) = order(tenant)
    session = sign_in(owner_of(tenant))
    web.dial_and_never_read(tenant.slug, session=session)
    (deaf,) = eventually(lambda: web.hub.sockets)
    good = web.dial(tenant.slug, session=session)
    good.take("delayed")

    # Fill the way to the one that does not read: its buffers, the kernel's, the server's.
    def flood():
        for number in range(5_000):
            deaf.outbox.put_point(uuid.UUID(int=number), Point(1, 2, 3, 4, 5))

    def is_left():
        web.loop.call_soon_threadsafe(flood)
        time.sleep(0.2)
        return deaf not in web.hub.sockets

    eventually(is_left, timeout=30)
    version = rename(instance, "others are told all the same")
    assert good.version_of(to_text("ins", instance.pk)) == version
