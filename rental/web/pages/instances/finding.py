"""How pages find an instance of the visitor's tenant; anything else is not there."""

import uuid

from django.http import Http404

from billing.services.wallets import Balance, read_balance
from rental.instances.models import Instance
from rental.instances.queries import InstanceRow, InstanceSheet, get_for_page, rows_of
from rental.web.visit import Visit


def balance_for(visit: Visit) -> Balance | None:
    """Read the balance once for a page and its frame; None for whoever may not see it."""
    if not visit.may("billing:read"):
        return None
    return read_balance(tenant_id=visit.tenant.id, now=visit.now)


def sheet_of(
    visit: Visit, instance_id: uuid.UUID, *, balance: Balance | None = None
) -> InstanceSheet:
    """:raises Http404: if the tenant has no such instance"""
    sheet = get_for_page(
        visit.tenant.id, instance_id, now=visit.now, may=visit.may, balance=balance
    )
    if sheet is None:
        raise Http404
    return sheet


def rows_by_id(
    visit: Visit, instance_ids: list[uuid.UUID], *, balance: Balance | None = None
) -> list[InstanceRow]:
    """Return the rows of the tenant's instances of these ids, by name; others are left out."""
    found = Instance.objects.of(visit.tenant.id).filter(pk__in=instance_ids)
    instances = list(found.select_related("offer", "image", "project").order_by("name", "pk"))
    return rows_of(visit.tenant.id, instances, now=visit.now, may=visit.may, balance=balance)


def row_of(visit: Visit, instance_id: uuid.UUID, *, balance: Balance | None = None) -> InstanceRow:
    """:raises Http404: if the tenant has no such instance"""
    rows = rows_by_id(visit, [instance_id], balance=balance)
    if not rows:
        raise Http404
    return rows[0]
