"""Each kind of break is named; what is additive is not."""

import copy
import json

import pytest

from rental.api.compat import breaking
from rental.api.docs import OPENAPI

BASE = {
    "paths": {
        "/v1/things": {
            "get": {
                "parameters": [
                    {"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 100}}
                ],
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}
                        }
                    }
                },
            },
            "post": {
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/ThingInput"}}
                    },
                },
                "responses": {"201": {"description": "made"}},
            },
        }
    },
    "components": {
        "schemas": {
            "Thing": {
                "type": "object",
                "required": ["id", "name"],
                "properties": {
                    "id": {"type": "string"},
                    "name": {"type": ["string", "null"]},
                    "parent": {"$ref": "#/components/schemas/Thing"},
                },
            },
            "ThingInput": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": 80},
                    "kind": {"type": "string", "enum": ["a", "b"]},
                },
            },
        }
    },
}


def changed(edit):
    new = copy.deepcopy(BASE)
    edit(new["paths"]["/v1/things"], new["components"]["schemas"], new)
    return breaking(BASE, new)


BREAKS = {
    "path removed": lambda item, schemas, new: new["paths"].clear(),
    "method removed": lambda item, schemas, new: item.pop("post"),
    "answer gone": lambda item, schemas, new: item["post"].update(responses={}),
    "parameter removed": lambda item, schemas, new: item["get"].update(parameters=[]),
    "parameter newly required": lambda item, schemas, new: item["get"]["parameters"].append(
        {"in": "query", "name": "q", "required": True, "schema": {}}
    ),
    "bound tightened": lambda item, schemas, new: item["get"]["parameters"][0]["schema"].update(
        maximum=50
    ),
    "field removed": lambda item, schemas, new: schemas["Thing"]["properties"].pop("id"),
    "field no longer promised": lambda item, schemas, new: schemas["Thing"].update(required=["id"]),
    "output type widened": lambda item, schemas, new: schemas["Thing"]["properties"]["id"].update(
        type=["string", "null"]
    ),
    "input newly required": lambda item, schemas, new: schemas["ThingInput"].update(
        required=["name", "kind"]
    ),
    "input removed": lambda item, schemas, new: schemas["ThingInput"]["properties"].pop("kind"),
    "enum narrowed": lambda item, schemas, new: schemas["ThingInput"]["properties"]["kind"].update(
        enum=["a"]
    ),
    "length tightened": lambda item, schemas, new: schemas["ThingInput"]["properties"][
        "name"
    ].update(maxLength=40),
    "input type changed": lambda item, schemas, new: schemas["ThingInput"]["properties"][
        "name"
    ].update(type="integer"),
}

ADDITIONS = {
    "nothing": lambda item, schemas, new: None,
    "new path": lambda item, schemas, new: new["paths"].update({"/v1/others": {}}),
    "new optional parameter": lambda item, schemas, new: item["get"]["parameters"].append(
        {"in": "query", "name": "q", "schema": {"type": "string"}}
    ),
    "new field": lambda item, schemas, new: schemas["Thing"]["properties"].update(
        size={"type": "integer"}
    ),
    "new optional input": lambda item, schemas, new: schemas["ThingInput"]["properties"].update(
        size={"type": "integer"}
    ),
    "enum of an input widened": lambda item, schemas, new: schemas["ThingInput"]["properties"][
        "kind"
    ].update(enum=["a", "b", "c"]),
    "bound loosened": lambda item, schemas, new: item["get"]["parameters"][0]["schema"].update(
        maximum=200
    ),
    "output promised more": lambda item, schemas, new: schemas["Thing"]["properties"][
        "name"
    ].update(type="string"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_found(name):
    assert len(changed(BREAKS[name])) == 1


@pytest.mark.parametrize("name", ADDITIONS)
def test_an_addition_is_no_break(name):
    assert changed(ADDITIONS[name]) == []


def test_the_committed_document_does_not_break_itself():
    document = json.loads(OPENAPI.read_text())
    assert breaking(document, document) == []


def test_a_renamed_field_in_the_committed_document_is_a_break():
    document = json.loads(OPENAPI.read_text())
    new = copy.deepcopy(document)
    fields = new["components"]["schemas"]["Instance"]["properties"]
    fields["label"] = fields.pop("name")
    assert any("name removed" in line for line in breaking(document, new))
