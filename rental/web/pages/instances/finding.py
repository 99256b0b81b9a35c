"""How pages find an instance of the visitor's tenant; anything else is not there."""

import uuid

from django.http import Http404

from rental.instances.models import Instance
from rental.instances.queries import InstanceRow, InstanceSheet, get_for_page, rows_of
from rental.web.visit import Visit


def sheet_of(visit: Visit, instance_id: uuid.UUID) -> InstanceSheet:
    """:raises Http404: if the tenant has no such instance"""
    sheet = get_for_page(visit.tenant.id, instance_id, now=visit.now, may=visit.may)
    if sheet is None:
        raise Http404
    return sheet


def rows_by_id(visit: Visit, instance_ids: list[uuid.UUID]) -> list[InstanceRow]:
    """Return the rows of the tenant's instances of these ids, by name; others are left out."""
    found = Instance.objects.of(visit.tenant.id).filter(pk__in=instance_ids)
    instances = list(found.select_related("offer", "image", "project").order_by("name", "pk"))
    return rows_of(visit.tenant.id, instances, now=visit.now, may=visit.may)


def row_of(visit: Visit, instance_id: uuid.UUID) -> InstanceRow:
    """:raises Http404: if the tenant has no such instance"""
    rows = rows_by_id(visit, [instance_id])
    if not rows:
        raise Http404
    return rows[0]
