"""What pages ask for by themselves: versions and samples, each of the visitor's tenant alone."""

import time

import pytest
from django.test import Client

from rental.instances.models import Instance
from rental.instances.samples.points import Point
from rental.instances.samples.recent import recent
from rental.records.ids import to_text
from rental.tenants.models import Role
from rental.tenants.services import remove_member
from tests.factories.rental import NOON, make_image, make_offer, make_rich_tenant, order
from tests.factories.tenants import OPERATOR, make_member, make_tenant, owner_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant(db):
    make_offer()
    make_image()
    return make_rich_tenant()


def signed_in(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def versions(client, tenant, *ids):
    return client.get(f"/t/{tenant.slug}/live/versions?ids={','.join(ids)}")


def samples(client, tenant, instance, minutes=60):
    name = to_text("ins", instance.pk)
    return client.get(f"/t/{tenant.slug}/instances/{name}/samples?minutes={minutes}")


def test_the_versions_of_what_is_asked_for_and_ours(tenant, django_assert_max_num_queries):
    first, second = order(tenant, count=2)
    (foreign,) = order(make_rich_tenant())
    Instance.objects.filter(pk=second.pk).update(name="newer")
    client = signed_in(owner_of(tenant))
    asked = [to_text("ins", one.pk) for one in (first, second, foreign)]
    versions(client, tenant)  # the session remembers the tenant

    with django_assert_max_num_queries(6):
        answer = versions(client, tenant, *asked, "nonsense", "")

    first.refresh_from_db()
    second.refresh_from_db()
    assert answer.json() == {"versions": {asked[0]: first.version, asked[1]: second.version}}
    assert answer["Cache-Control"] == "no-store"


def test_an_hour_of_samples_in_columns(tenant):
    (instance,) = order(tenant)
    at = int(time.time()) - 30
    recent().write([(instance.pk, Point(at, 41, 1024, 99, 55))])

    answer = samples(signed_in(make_member(tenant, Role.VIEWER)), tenant, instance).json()

    assert (answer["source"], answer["at"]) == ("points", [at])
    assert (answer["util"], answer["vram_max"], answer["watts"]) == ([41], [1024], [99])
    assert 3595 <= answer["until"] - answer["since"] <= 3605


@pytest.mark.parametrize("minutes", ["x", "-1", "", "9" * 9, "1e3"])
def test_nonsense_is_an_hour(tenant, minutes):
    (instance,) = order(tenant)

    answer = samples(signed_in(owner_of(tenant)), tenant, instance, minutes).json()

    assert round((answer["until"] - answer["since"]) / 60) == 60


def test_who_may_not_look_finds_nothing(tenant):
    (instance,) = order(tenant)
    theirs = make_tenant()
    gone = make_member(tenant, Role.DEVELOPER)
    removed = signed_in(gone)
    remove_member(tenant=tenant, user=gone, actor=OPERATOR, now=NOON)

    for client in (signed_in(owner_of(theirs)), removed):
        assert versions(client, tenant, to_text("ins", instance.pk)).status_code == 404
        assert samples(client, tenant, instance).status_code == 404
    assert samples(signed_in(owner_of(theirs)), theirs, instance).status_code == 404
    assert "/accounts/login/" in versions(Client(), tenant)["Location"]
