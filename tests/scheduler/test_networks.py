"""Private networks: one for each (tenant, region), none over another, given once."""

from ipaddress import IPv4Network

import pytest
from django.db import IntegrityError, transaction

from rental.tenants.models import Tenant
from scheduler.errors import NetworksExhausted
from scheduler.models import PrivateNetwork, Request
from scheduler.models.networks import SPACE
from scheduler.services import networks
from scheduler.services.desired import desired_sets
from scheduler.services.networks import networks_of
from tests.factories.scheduler import (
    A_SHARE,
    NOON,
    make_allocation,
    make_node,
    make_request,
    make_tenant,
    make_zone,
    place,
)
from tests.scheduler.test_races import at_once


@pytest.fixture
def region():
    return make_zone().region


def network_of(tenant: Tenant, region) -> IPv4Network:
    key = (tenant.id, region.code)
    return networks_of([key], now=NOON)[key]


@pytest.mark.django_db
def test_the_next_free_network_is_given_once(region):
    tenants = [make_tenant() for _ in range(3)]

    given = [str(network_of(tenant, region)) for tenant in tenants]

    assert given == ["100.64.0.0/22", "100.64.4.0/22", "100.64.8.0/22"]
    assert [str(network_of(tenant, region)) for tenant in tenants] == given
    assert str(PrivateNetwork.objects.of(tenants[1].id).get()) == "100.64.4.0/22"


@pytest.mark.django_db
def test_another_region_is_another_network_that_does_not_overlap(region):
    tenant = make_tenant()
    other = make_zone("west-1a", "west-1").region

    both = networks_of({(tenant.id, region.code), (tenant.id, other.code)}, now=NOON)

    assert len(set(both.values())) == 2


@pytest.mark.django_db
def test_a_gap_is_given_before_what_comes_after_it(region):
    tenants = [make_tenant() for _ in range(3)]
    for tenant in tenants:
        network_of(tenant, region)
    PrivateNetwork.objects.of(tenants[1].id).delete()

    assert str(network_of(make_tenant(), region)) == "100.64.4.0/22"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("cidr", "rule"),
    [
        ("100.64.0.0/22", "private_networks_do_not_overlap"),
        ("10.0.0.0/22", "private_network_is_cut_from_the_space"),
        ("100.64.4.0/24", "private_network_is_cut_from_the_space"),
        ("100.64.0.0/10", "private_network_is_cut_from_the_space"),
    ],
)
def test_the_database_refuses_what_overlaps_or_is_no_part(region, cidr, rule):
    network_of(make_tenant(), region)

    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        PrivateNetwork.objects.create(
            tenant=make_tenant(), region=region, cidr=cidr, created_at=NOON
        )


@pytest.mark.django_db
def test_bits_of_a_host_are_no_network(region):
    with pytest.raises(ValueError, match="host bits"):
        PrivateNetwork.objects.create(
            tenant=make_tenant(), region=region, cidr="100.64.0.1/22", created_at=NOON
        )


@pytest.mark.django_db
def test_when_all_are_given_it_says_so_and_gives_none(region, monkeypatch):
    monkeypatch.setattr(networks, "SPACE", "100.64.0.0/21")  # two of them
    first, second, third = (make_tenant() for _ in range(3))
    network_of(first, region)

    keys = {(second.id, region.code), (third.id, region.code)}
    with pytest.raises(NetworksExhausted, match="all private networks of 100.64.0.0/21 are given"):
        networks_of(keys, now=NOON)

    assert PrivateNetwork.objects.count() == 1
    assert str(network_of(third, region)) == "100.64.4.0/22"


@pytest.mark.django_db
def test_the_whole_space_is_given_and_then_no_more(region):
    tenants = [Tenant(name=f"t{n}", slug=f"t{n}", created_at=NOON) for n in range(4095)]
    Tenant.objects.bulk_create(tenants)
    cut = IPv4Network(SPACE).subnets(new_prefix=22)
    PrivateNetwork.objects.bulk_create(
        PrivateNetwork(tenant=tenant, region=region, cidr=cidr, created_at=NOON)
        for tenant, cidr in zip(tenants, cut, strict=False)
    )

    assert str(network_of(make_tenant(), region)) == "100.127.252.0/22"
    with pytest.raises(NetworksExhausted):
        network_of(make_tenant(), region)


@pytest.mark.django_db
def test_a_first_placement_gives_one_and_the_order_carries_it():
    node = make_node(gpus=1)
    tenant = make_tenant()
    make_request(tenant=tenant, shape=A_SHARE)
    assert PrivateNetwork.objects.count() == 0

    place()
    make_request(tenant=tenant, shape=A_SHARE)
    place()

    network = PrivateNetwork.objects.of(tenant.id).get()
    assert network.region_id == node.zone.region_id
    (wanted,) = desired_sets([node.id])
    assert [order.network for order in wanted.orders] == ["100.64.0.0/22"] * 2


@pytest.mark.django_db
def test_each_order_carries_its_own_tenants_network():
    node = make_node(gpus=2)
    allocations = [make_allocation(node=node) for _ in range(2)]

    (wanted,) = desired_sets([node.id])

    carried = {order.allocation: order.network for order in wanted.orders}
    for allocation in allocations:
        own = PrivateNetwork.objects.of(allocation.tenant_id).get()
        assert carried[str(allocation.id)] == str(own.cidr)
    assert len(set(carried.values())) == 2


@pytest.mark.django_db
def test_without_a_network_left_a_request_waits_and_others_are_placed(monkeypatch):
    node = make_node(gpus=1)
    monkeypatch.setattr(networks, "SPACE", "100.64.0.0/22")
    old, new = make_tenant(), make_tenant()
    network_of(old, node.zone.region)
    poor = make_request(tenant=new, shape=A_SHARE)
    rich = make_request(tenant=old, shape=A_SHARE)

    result = place()

    assert [one.request_id for one in result.placed] == [rich.id]
    assert Request.objects.get(pk=poor.pk).reasons == {"refused": 1}


@pytest.mark.django_db(transaction=True)
def test_16_at_once_give_one_network_a_pair_and_none_overlap():
    region = make_zone().region
    tenants = [make_tenant() for _ in range(8)]

    given = at_once(*[lambda tenant=tenant: network_of(tenant, region) for tenant in tenants * 2])

    assert given[:8] == given[8:]
    assert len(set(given)) == 8
    assert PrivateNetwork.objects.count() == 8
    assert set(given) == {IPv4Network(f"100.64.{4 * n}.0/22") for n in range(8)}
