"""The log context: ids of the request, under one name each."""

import pytest
from structlog.contextvars import get_contextvars

from rental.records import context

pytestmark = pytest.mark.pure


def test_ids_are_bound_inside_the_block_only():
    with context.bound(request_id="req_1", tenant=None):
        assert get_contextvars() == {"request_id": "req_1"}
        assert context.current_request_id() == "req_1"

    assert context.current_request_id() is None


def test_bind_lasts_until_it_is_cleared():
    context.bind(tenant="ten_1", allocation=7)
    try:
        assert get_contextvars() == {"tenant": "ten_1", "allocation": "7"}
    finally:
        context.unbind_all()

    assert get_contextvars() == {}


def test_another_name_for_an_id_is_refused():
    with pytest.raises(ValueError, match="tenant_id"):
        context.bind(tenant_id="ten_1")
    assert get_contextvars() == {}
