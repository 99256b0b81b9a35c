"""The committed document is true: equal to the code, and nothing answers outside of it."""

import json
import re
from contextlib import suppress

import pytest
import schemathesis
from django.core.management import CommandError, call_command
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rental.api import docs
from rental.api.compat import METHODS
from rental.api.contract import PATH_IDS, contracts_of
from rental.refusals import ANSWERS, CODES
from tests.api.conftest import order
from tests.api.test_matrix import api_routes

DOCUMENT = json.loads(docs.OPENAPI.read_text())
OPERATIONS = [
    (path, method)
    for path, item in DOCUMENT["paths"].items()
    for method in METHODS
    if method in item
]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 8  # for each operation and mode; hypothesis is derandomized, so always the same


def test_the_committed_document_is_the_code():
    call_command("openapi", check=True)


def test_a_stale_document_fails_the_check(tmp_path, monkeypatch):
    stale = tmp_path / "openapi.json"
    stale.write_text(docs.OPENAPI.read_text().replace("list_offers", "list_offer"))
    monkeypatch.setattr("rental.management.commands.openapi.OPENAPI", stale)
    with pytest.raises(CommandError, match="stale"):
        call_command("openapi", check=True)


def test_a_document_whose_clients_would_break_fails_the_check(tmp_path):
    base = tmp_path / "base.json"
    base.write_text(docs.OPENAPI.read_text().replace("/v1/offers", "/v1/bargains"))
    with pytest.raises(CommandError, match="/v1/bargains: removed"):
        call_command("openapi", check=True, base=base)


def test_every_operation_of_the_code_is_in_the_document():
    described = {DOCUMENT["paths"][path][method]["operationId"] for path, method in OPERATIONS}
    assert described == {contract.name for _route, _method, contract in api_routes()}


def test_every_path_parameter_is_an_id():
    names = {name for route, _, _ in api_routes() for name in re.findall(r":(\w+)>", route)}
    assert names == set(PATH_IDS)


def test_every_status_of_the_answers_is_described_somewhere():
    described = {
        int(status)
        for path, method in OPERATIONS
        for status in DOCUMENT["paths"][path][method]["responses"]
    }
    assert {row.status for row in ANSWERS.values()} <= described
    assert {row.code for row in ANSWERS.values()} <= CODES.keys()


def test_the_page_of_the_docs_has_every_code():
    text = (docs.OPENAPI.parent / "api.md").read_text()
    assert [code for code in CODES if f"`{code}`" not in text] == []


def test_the_page_of_the_docs_has_every_operation():
    text = (docs.OPENAPI.parent / "api.md").read_text()
    missing = [path for path, _method in OPERATIONS if f"`{path}`" not in text]
    assert missing == []


@pytest.fixture
def one_connection(ours):  # noqa: F811
    """
    A request through WSGI closes connections, and with it this test's transaction. After ``ours``:
    Django's test client connects the signals again.
    """
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.mark.django_db
@pytest.mark.usefixtures("one_connection")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_input_leaves_the_contract(path, method, mode, api, ours):  # noqa: F811
    schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", get_wsgi_application())
    operation = schema[path][method]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case):
        if mode is GenerationMode.POSITIVE:  # things that exist, or only 404 would be tried
            for name in case.path_parameters or {}:
                case.path_parameters[name] = ours[name]
            if "instances" in path and isinstance(case.body, dict) and "offer" in case.body:
                case.body.update(order(ssh_key_ids=[], project_id=None, quote_id=None))
        case.query.pop("wait", None)  # waiting is tried elsewhere
        headers = {"Authorization": f"Bearer {api.key}"}
        response = case.call(headers=headers)
        case.validate_response(response, checks=CHECKS, headers=headers)

    with suppress(Unsatisfiable):  # a request without any input cannot be wrong
        send()


def test_contracts_of_a_view_are_by_method():
    assert contracts_of(object) == {}
