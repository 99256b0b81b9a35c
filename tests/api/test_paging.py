"""Cursors are ours, of one list only, and a walk over pages sees each row once."""

import base64

import pytest

from rental.api.errors import problem_of
from rental.records.clock import database_now
from rental.records.ids import new_id
from rental.records.paging import ForeignCursor, read_cursor, take_page, write_cursor
from rental.tenants.models import Project
from tests.factories.tenants import make_tenant


def test_a_cursor_comes_back_as_it_was_written():
    values = [database_now_free(), new_id(), "code"]
    assert read_cursor(write_cursor(values, scope="a"), scope="a") == values


def database_now_free():
    from tests.factories.tenants import NOON

    return NOON


@pytest.mark.parametrize(
    "text", ["", "x", "AAAA", "é", "../../etc", "A" * 400, base64.urlsafe_b64encode(b"0" * 60)]
)
def test_a_forged_cursor_is_refused(text):
    with pytest.raises(ForeignCursor) as refusal:
        read_cursor(str(text), scope="a")
    problem = problem_of(refusal.value)
    assert (problem.status, [error.field for error in problem.errors]) == (422, ["cursor"])


def test_a_cursor_of_another_list_is_refused():
    with pytest.raises(ForeignCursor):
        read_cursor(write_cursor([new_id()], scope="a"), scope="b")


@pytest.mark.django_db
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_walk_sees_each_row_once_in_order(limit, descending):
    tenant = make_tenant()
    now = database_now()
    for number in range(6):  # equal times: the id decides
        Project.objects.create(tenant=tenant, slug=f"p{number}", name="p", created_at=now)
    rows = Project.objects.of(tenant.id)
    seen, cursor = [], None
    while True:
        page = take_page(
            rows,
            key=("created_at", "id"),
            descending=descending,
            limit=limit,
            cursor=cursor,
            scope="projects",
        )
        seen += [row.pk for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            break
    order = ("-created_at", "-id") if descending else ("created_at", "id")
    assert seen == list(rows.order_by(*order).values_list("pk", flat=True))
