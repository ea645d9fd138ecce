"""Descriptions: three versions, slightly invalid ones, hostile ones."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ipyagent.errors import ConfigError
from ipyagent.services.openapi import documents
from ipyagent.services.openapi.documents import (
    MAX_STORED,
    Operation,
    parse_document,
    read_operations as read,
)
from servers.openapi_server import SHOP, described, operation, parameter


def found(document: dict[str, Any]) -> dict[str, Operation]:
    return {each.name: each for each in read(document).operations}


def of_schema(schema: dict[str, Any], **components: Any) -> dict[str, Any]:
    """Return the schema of a body as the model gets it."""
    media = {"application/json": {"schema": schema}}
    paths = {"/x": {"post": operation("x", requestBody={"content": media})}}
    document = described(paths, components={"schemas": components})
    told: dict[str, Any] = found(document)["x"].inputs["body"]
    Draft202012Validator.check_schema(told)
    return told


def test_json_and_yaml_give_the_same_result() -> None:
    import yaml

    text = yaml.safe_dump(SHOP)
    assert parse_document(text.encode()) == parse_document(json.dumps(SHOP).encode()) == SHOP
    assert parse_document(b"\xef\xbb\xbf" + json.dumps(SHOP).encode()) == SHOP
    dated = text.replace("version: '1'", "version: 2020-01-01")
    assert parse_document(dated.encode())["info"]["version"] == "2020-01-01"


def test_keys_that_yaml_reads_as_numbers_become_text() -> None:
    text = """
openapi: 3.1.0
info: {title: x, version: 1}
x: &x {on: 1, null: 2, 12: 3, 1.5: 4}
paths:
  /a:
    get: {operationId: a, responses: {200: {description: y}, 404: {description: n}}}
  7: {get: {}}
y: [*x, *x]
"""
    document = parse_document(text.encode())
    assert set(document["paths"]["/a"]["get"]["responses"]) == {"200", "404"}
    assert document["y"] == [{"on": 1, "null": 2, "12": 3, "1.5": 4}] * 2
    assert set(found(document)) == {"a"}


def test_plain_words_mean_what_they_mean_in_yaml_1_2() -> None:
    text = """
openapi: 3.1.0
info: {title: on, version: 1.10}
paths: {}
words: [GB, NO, No, no, on, ON, off, yes, Y, y, n, N, 2024-01-01, 2024-01-01T00:00:00Z, 12:30:45,
        1_000, 0b11, 1:30, +.5e, 0x, 08:00, =, <<, .nan, 1e, "true", 'null']
values: [true, False, TRUE, null, Null, ~, 010, -007, 0o17, 0xff, +12, 1.5, .5, 2., 1e3, -1.5E-2]
keys: {NO: 1, on: 2, y: 3, 2024-01-01: 4, 010: 5, 1.10: 6, true: 7, 1_000: 8, ~: 9, 12:30:45: 10}
base: &base {no: 1, yes: 2}
more: {<<: *base, yes: 3}
empty:
"""
    document = parse_document(text.encode())
    assert document["info"] == {"title": "on", "version": 1.1}
    assert document["words"] == [
        "GB", "NO", "No", "no", "on", "ON", "off", "yes", "Y", "y", "n", "N", "2024-01-01",
        "2024-01-01T00:00:00Z", "12:30:45", "1_000", "0b11", "1:30", "+.5e", "0x", "08:00", "=",
        "<<", ".nan", "1e", "true", "null",
    ]  # fmt: skip
    values = document["values"]
    assert values == [True, False, True, None, None, None, 10, -7, 15, 255, 12, 1.5, 0.5, 2.0,
                      1000.0, -0.015]  # fmt: skip
    assert [type(each) for each in values[6:13]] == [int] * 5 + [float] * 2
    assert list(document["keys"]) == [
        "NO", "on", "y", "2024-01-01", "010", "1.10", "true", "1_000", "~", "12:30:45",
    ]  # fmt: skip
    assert document["more"] == {"no": 1, "yes": 3}
    assert document["empty"] is None


def test_lone_surrogates_and_infinite_numbers_do_no_harm() -> None:
    schema = {"type": "integer", "maximum": 10**400, "default": -(10**400), "minimum": 1}
    schema |= {"maxLength": 10**400, "enum": [10**400]}
    one = operation("\ud800a", parameter("query", "q\ud800", **schema), summary="\ud83d")
    result = read(parse_document(json.dumps(described({"/a": {"get": one}})).encode()))
    assert result.operations[0].name == "\ufffda"
    properties = result.operations[0].inputs["query"]["properties"]
    assert "(enum: [1000" in properties["q\ufffd"].pop("description")
    assert properties == {"q\ufffd": {"type": "integer", "minimum": 1}}
    assert Operation.model_validate_json(result.operations[0].dump_line()) == result.operations[0]


INVALID: list[tuple[bytes, str]] = [
    (b"", "no `paths`"),
    (b"<html>", "no `paths`"),
    (b"[1]", "no `paths`"),
    (b'{"openapi": "3.0.0"}', "no `paths`"),
    (b'{"openapi": "3.0.0", "paths": []}', "no `paths`"),
    (b'{"openapi": "3.0.0", "paths": {', "not JSON"),
    (b'{"openapi": "4.1.0", "paths": {}}', "version is 4.1.0"),
    (b'{"swagger": "1.2", "paths": {}}', "version is 1.2"),
    (b'{"paths": {}}', "version is nothing"),
    (b'{"openapi": "3.0.0", "paths": {}, "x": NaN}', "not a JSON number"),
    (b"\xff\xfe\x00", "UTF-8"),
    (b"a: [1, 2", "neither JSON nor YAML"),
    (b"!!python/object/apply:os.system [true]", "neither JSON nor YAML"),
    (b"openapi: 3.0.0\npaths: {/x: !!binary aGk=}", "bytes"),
    (b"{" + b'"a":{' * 200_000, "nested too deeply"),
    (b'{"openapi": "3.0.0", "paths": {"/x": ' + b"[" * 150 + b"]" * 150 + b"}}", "deeply"),
    (b"x: " + b"[" * 100_000, "nested too deeply"),
    (b"- " * 50_000, "nested too deeply"),
    (b"openapi: 3.0.0\npaths: &a {/x: *a}", "or itself"),
    (b" " * (documents.MAX_BYTES + 1), "larger than"),
    (b"x: " + b"y" * documents.MAX_YAML_BYTES, "use JSON"),
]


@pytest.mark.spec("P39")
def test_an_invalid_description_is_refused_with_the_reason() -> None:
    for data, why in INVALID:
        with pytest.raises(ConfigError, match=why):
            parse_document(data)


def test_a_billion_laughs_are_refused() -> None:
    lines = ["openapi: 3.0.0", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(ConfigError, match="more than"):
        parse_document("\n".join([*lines, "paths: {}"]).encode())


@pytest.mark.spec("P12")
def test_parameters_and_body_are_described_where_a_request_has_them() -> None:
    document = described(
        {
            "/a/{id}": {
                "parameters": [parameter("path", "id"), parameter("query", "q", type="integer")],
                "post": operation(
                    "a",
                    parameter("query", "q", type="number"),  # the operation's own one counts
                    parameter("header", "X-Odd Name"),
                    parameter("header", "Authorization"),
                    parameter("query", "filter[name]", type="array", items={"type": "string"}),
                    parameter("query", "id"),
                    parameter("query", "body"),
                    requestBody={"content": {"application/json": {"schema": {}}}},
                ),
            }
        }
    )
    one = found(document)["a"]
    assert {
        place: [*each["properties"]] for place, each in one.inputs.items() if place != "body"
    } == {
        "path": ["id"],
        "query": ["q", "X-Odd Name", "filter[name]", "id", "body"],
    }
    assert one.inputs["query"]["properties"]["q"] == {"type": "number"}
    assert (one.inputs["body"], one.media) == ({}, "application/json")


def test_swagger_2_is_supported() -> None:
    document = {
        "swagger": "2.0",
        "info": {"title": "Old", "version": "1"},
        "consumes": ["application/json"],
        "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "type": "integer"}},
        "paths": {
            "/pets/{id}": {
                "parameters": [{"$ref": "#/parameters/Id"}],
                "put": {
                    "operationId": "putPet",
                    "parameters": [
                        {"name": "pet", "in": "body", "required": True,
                         "schema": {"$ref": "#/definitions/Pet"}},
                        {"name": "tags", "in": "query", "type": "array",
                         "items": {"type": "string"}, "collectionFormat": "multi"},
                        {"name": "odd", "in": "query", "type": "array",
                         "items": {"type": "string"}, "collectionFormat": "csv"},
                    ],
                    "responses": {"200": {"description": "x"}},
                },
                "post": {
                    "operationId": "rename",
                    "consumes": ["multipart/form-data", "application/x-www-form-urlencoded"],
                    "parameters": [
                        {"name": "name", "in": "formData", "type": "string", "required": True},
                        {"name": "note", "in": "formData", "type": "string"},
                    ],
                    "responses": {"200": {"description": "x"}},
                },
            }
        },
    }  # fmt: skip
    put, rename = found(document)["putPet"], found(document)["rename"]
    assert put.media == "application/json"
    assert put.inputs["body"]["properties"] == {"name": {"type": "string"}}
    assert put.inputs["path"]["properties"]["id"] == {"type": "integer"}
    assert put.inputs["required"] == ["body"]
    assert put.joined == ("odd",)
    assert rename.media == "application/x-www-form-urlencoded"
    assert rename.inputs["body"]["required"] == ["name"]


SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ({"type": "string", "x-nullable": True}, {"type": ["string", "null"]}),
    (
        {"nullable": True, "allOf": [{"type": "string"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
    ({"type": "integer", "exclusiveMaximum": 5}, {"type": "integer", "exclusiveMaximum": 5}),
    (
        {"type": "object", "required": ["id", "n"],
         "properties": {"id": {"readOnly": True}, "n": {"type": "number", "example": 3}}},
        {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
    ),
    ({"type": "file"}, {"type": "string"}),
    ({"oneOf": [{"type": "string"}, {}]}, {"anyOf": [{"type": "string"}, {}]}),
    ({"type": "strnig", "minimum": "1", "required": True, "maxLength": -1, "enum": "a"}, {}),
    ({"type": "number", "multipleOf": 0, "maximum": True}, {"type": "number"}),
    ({"$ref": "#/components/schemas/Missing"}, {}),
    ({"$ref": "file:///etc/passwd"}, {}),
    ({"$ref": "http://127.0.0.1:1/x"}, {}),
    ({"$ref": 7}, {}),
    (True, {}),
]  # fmt: skip


def test_schemas_are_converted_to_current_json_schema() -> None:
    wrong = [(given, of_schema(given)) for given, told in SCHEMAS if of_schema(given) != told]
    assert wrong == []


def test_a_recursive_schema_is_cut() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"type": "integer"}},
    }
    told = of_schema({"$ref": "#/components/schemas/Node"}, Node=node)
    assert told["properties"]["next"] == {"type": "object"}
    circle = {"$ref": "#/components/schemas/B"}
    assert of_schema(circle, A=circle, B={"$ref": "#/components/schemas/A"}) == {}


def test_schemas_that_grow_exponentially_stay_small() -> None:
    schemas = {
        f"S{i}": {
            "type": "object",
            "properties": {n: {"$ref": f"#/components/schemas/S{i + 1}"} for n in "abcdefgh"},
        }
        for i in range(30)
    }
    told = of_schema({"$ref": "#/components/schemas/S0"}, **schemas)
    assert len(json.dumps(told)) < 10_000


@pytest.mark.spec("P39")
def test_a_slightly_invalid_description_still_gives_its_operations() -> None:
    document = described({"/x": {"get": {"operationId": "x"}}, "/y": {"get": operation("y")}})
    assert set(found(document)) == {"x", "y"}
    odd = described({"/x": None, "/y": 3, "/z": {"get": [], "post": operation("z")}, "/w": {}})
    assert set(found(odd)) == {"z"}


ELSEWHERE = [
    "//evil.example/x", "@evil.example", "evil", "http://evil.example/x", "/a/../b", "/./a",
    "/%2e%2e/a", "/a%2Fb", "/a\\b", "/a?b=c", "/a#b", "/a\r\nHost: evil", "/a b", "/a//b",
    "/" + "x" * 600, "",
]  # fmt: skip


def test_paths_that_could_lead_elsewhere_are_left_out() -> None:
    paths = {each: {"get": operation("bad")} for each in ELSEWHERE}
    result = read(described({**paths, "/ok": {"get": operation("ok")}}))
    assert [each.name for each in result.operations] == ["ok"]
    assert len(result.notices) == 6
    assert all("it is not a path below the service" in each for each in result.notices[:5])
    assert result.notices[5] == f"left out: {len(ELSEWHERE) - 5} more"


@pytest.mark.slow
@pytest.mark.spec("P39")
def test_a_huge_description_is_cut_to_what_can_be_stored() -> None:
    fat = {f"p{i}": {"type": "string", "description": "x" * 250} for i in range(30)}
    media = {"application/json": {"schema": {"type": "object", "properties": fat}}}
    body = {"requestBody": {"content": media}}
    query = [parameter("query", f"{'q' * 90}{i}") for i in range(20)]
    paths = {f"/a{i}/{{id}}": {"post": operation(f"a{i}", *query, **body)} for i in range(2_500)}
    result = read(described(paths))
    assert len(json.dumps([each.dump_line() for each in result.operations])) < MAX_STORED
    assert 500 <= len(result.operations) < documents.MAX_OPERATIONS
    assert any("only the first" in each for each in result.notices)


@pytest.mark.spec("P39")
def test_a_thousand_operations_are_all_kept() -> None:
    path = [parameter("path", each) for each in ("owner", "repo", "id")]
    query = parameter("query", "per_page", type="integer", description="how many " * 10)
    paths = {
        f"/repos/{{owner}}/{{repo}}/{word}-{i}/{{id}}": {
            method: operation(f"{word}/{method}-{i}", *path, query, summary=f"{word} {i} of it")
            for method in ("get", "patch", "delete")
        }
        for i in range(50)
        for word in ("issues", "pulls", "checks", "actions", "teams", "hooks", "keys")
    }
    result = read(described(paths))
    assert (len(result.operations), result.notices) == (1_050, ())
