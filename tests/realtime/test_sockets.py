"""Who gets a socket, what it is told, and when it is ended."""

import time

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from websockets.exceptions import InvalidStatus

from rental.instances.models import Instance
from rental.realtime import hub as hub_module
from rental.records.ids import to_text
from rental.tenants.models import Membership, Role
from rental.tenants.services import change_member_role, remove_member
from tests.factories.rental import NOON, make_image, make_offer, make_rich_tenant, order
from tests.factories.tenants import OPERATOR, make_member, make_tenant, owner_of
from tests.gateway.eventually import eventually
from tests.realtime.conftest import sign_in

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 5.0  # s; what the console promises about sockets of people who may not be there any more


@pytest.fixture
def tenant(transactional_db):
    make_offer()
    make_image()
    return make_rich_tenant()


@pytest.fixture
def instance(tenant):
    (instance,) = order(tenant)
    return instance


def text(instance):
    return to_text("ins", instance.pk)


def rename(instance, name):
    """Any change; return the version that it made."""
    Instance.objects.filter(pk=instance.pk).update(name=name)
    return Instance.objects.get(pk=instance.pk).version


# --- what a page is told


def test_a_change_is_told_with_its_version(web, tenant, instance):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.take("delayed", what="rows", **{"is": False})

    version = rename(instance, "other")

    assert page.version_of(text(instance)) == version


def test_what_a_page_shows_is_told_its_version_at_once(web, tenant, instance):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))

    page.watch(text(instance))

    assert page.version_of(text(instance)) == Instance.objects.get(pk=instance.pk).version


def test_many_changes_become_the_last_one(web, tenant, instance):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.take("delayed", what="rows", **{"is": False})

    for number in range(200):
        last = rename(instance, f"name-{number}")

    while page.version_of(text(instance)) != last:
        pass
    told = sum(message["k"] == "rows" for message in page.heard)
    assert told < 100


def test_a_stranger_is_told_nothing_of_ours(web, tenant, instance):
    theirs = make_tenant()
    stranger = web.dial(theirs.slug, session=sign_in(owner_of(theirs)))
    stranger.take("delayed", what="rows", **{"is": False})
    stranger.watch(text(instance), charts=[text(instance)])
    ours = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    ours.take("delayed", what="rows", **{"is": False})

    version = rename(instance, "other")

    assert ours.version_of(text(instance)) == version
    assert stranger.hears_nothing_for(1.0)
    assert not web.hub._by_chart


@pytest.mark.parametrize(
    "nonsense",
    ["", "null", "[]", '{"k": "watch"}', '{"k": "watch", "ids": 7}', '{"k": "drop"}', "\x00",
     '{"k": "watch", "ids": ["ins_1", "no", "ten_00000000000000000000000000"]}', "[" * 30_000],
)  # fmt: skip
def test_nonsense_is_ignored_and_the_socket_stays(web, tenant, instance, nonsense):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))

    page.say(nonsense)
    page.watch(text(instance))

    assert page.version_of(text(instance)) >= 1


def test_a_message_that_is_too_long_ends_the_socket(web, tenant):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))

    page.say("x" * 40_000)

    assert page.close_code() == 1009


# --- who may have one


def test_nobody_signed_in_is_told_so_and_nothing_else(web, tenant, instance):
    page = web.dial(tenant.slug)

    assert page.close_code() == 4401
    assert page.heard == []


def test_a_stranger_finds_no_tenant_there(web, tenant):
    theirs = make_tenant()
    page = web.dial(tenant.slug, session=sign_in(owner_of(theirs)))
    nowhere = web.dial("no-such-tenant", session=sign_in(owner_of(theirs)))

    assert page.close_code() == 4404
    assert nowhere.close_code() == 4404
    assert page.heard == nowhere.heard == []


def test_a_viewer_is_told_what_changes(web, tenant, instance):
    viewer = make_member(tenant, Role.VIEWER)
    page = web.dial(tenant.slug, session=sign_in(viewer))

    page.watch(text(instance))

    assert page.version_of(text(instance)) >= 1


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_another_site_gets_no_socket(web, tenant, origin):
    with pytest.raises(InvalidStatus, match="403"):
        web.dial(tenant.slug, session=sign_in(owner_of(tenant)), origin=origin)


@pytest.mark.parametrize("path", ["ws/t/", "ws", "agent/v1", "ws/t/a/b", "%00"])
def test_at_other_addresses_there_is_no_socket(web, tenant, path):
    with pytest.raises(InvalidStatus, match="403"):
        web.dial(tenant.slug, session=sign_in(owner_of(tenant)), path=path)


def test_a_user_has_so_many_sockets_and_no_more(web, tenant, monkeypatch):
    monkeypatch.setattr(hub_module, "MOST_A_USER", 2)
    session = sign_in(owner_of(tenant))
    first, second = (web.dial(tenant.slug, session=session) for _ in range(2))
    first.take("delayed")
    second.take("delayed")

    assert web.dial(tenant.slug, session=session).close_code() == 4429

    first.socket.close()
    eventually(lambda: len(web.hub.sockets) == 1)
    web.dial(tenant.slug, session=session).take("delayed")


# --- who may not any more


def signed_out(tenant, member, session):
    Session.objects.filter(pk=session).delete()


def session_expired(tenant, member, session):
    Session.objects.filter(pk=session).update(expire_date=NOON)


def locked(tenant, member, session):
    type(member).objects.filter(pk=member.pk).update(is_active=False)


def new_password(tenant, member, session):
    member.set_password("another-one-of-12")
    member.save()


def removed(tenant, member, session):
    remove_member(tenant=tenant, user=member, actor=OPERATOR, now=NOON)


def other_role(tenant, member, session):
    change_member_role(tenant=tenant, user=member, role=Role.VIEWER, actor=OPERATOR, now=NOON)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (signed_out, 4401),
        (session_expired, 4401),
        (locked, 4401),
        (new_password, 4401),
        (removed, 4404),
        (other_role, 4403),
    ],
)
def test_a_socket_ends_within_five_seconds_of(web, tenant, instance, what, code):
    member = make_member(tenant, Role.DEVELOPER)
    session = sign_in(member)
    page = web.dial(tenant.slug, session=session)
    owner = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.take("delayed", what="rows", **{"is": False})
    owner.take("delayed", what="rows", **{"is": False})

    began = time.monotonic()
    what(tenant, member, session)

    assert page.close_code() == code
    assert time.monotonic() - began < WITHIN
    version = rename(instance, "other")
    assert owner.version_of(text(instance)) == version  # nobody else's ends


def test_one_question_asks_after_all_sockets(web, tenant, monkeypatch):
    asked = []
    pages = [web.dial(tenant.slug, session=sign_in(owner_of(tenant))) for _ in range(20)]
    for page in pages:
        page.take("delayed")
    standings = web.hub._asker.standings

    async def count(visitors):
        asked.append(len(visitors))
        return await standings(visitors)

    monkeypatch.setattr(web.hub._asker, "standings", count)

    eventually(lambda: len(asked) >= 2)
    assert set(asked) == {20}
    assert Membership.objects.of(tenant.id).count() == 1


# --- when something is away


def terminate(name):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            [name],
        )
        return cursor.fetchone()[0]


def test_what_changed_while_nobody_listened_is_told_afterwards(web, tenant, instance):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.watch(text(instance))
    page.version_of(text(instance))

    assert terminate("web-live-rows") == 1
    version = rename(instance, "changed in the hole")

    page.take("delayed", what="rows", **{"is": True})
    while page.version_of(text(instance)) != version:
        pass
    assert {"k": "delayed", "what": "rows", "is": False} in page.heard


def test_a_lost_connection_of_questions_is_replaced(web, tenant, instance):
    page = web.dial(tenant.slug, session=sign_in(owner_of(tenant)))
    page.take("delayed")
    assert terminate("web-live-questions") == 1

    page.watch(text(instance))

    assert page.version_of(text(instance)) >= 1
