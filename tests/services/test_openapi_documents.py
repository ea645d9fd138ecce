"""Descriptions: three versions, as the field writes them, slightly invalid ones, hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_lab import User
from jsonschema import Draft202012Validator

from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.services.openapi import documents
from ipyagent.services.openapi.discovery import choose_base, server_in
from ipyagent.services.openapi.documents import (
    MAX_STORED,
    Operation,
    parse_document,
    read_operations as read,
)
from servers.openapi_server import (
    SHOP,
    APIServer,
    answer,
    described,
    echo,
    json_answer,
    operation,
    parameter,
)


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


MANY = {"type": "array", "items": {"type": "string"}}
THING = {"type": "object", "additionalProperties": {"type": "string"}}


def serve(folder: Path, server: APIServer, document: Any) -> tuple[User, str]:
    server.routes["GET /openapi.json"] = json_answer(document)
    folder.mkdir(exist_ok=True)
    user = User(folder / "folder", KEY="open-sesame-12")
    return user, user.services.register("s", server.url)


def in_path(**more: Any) -> dict[str, Any]:
    return {"name": "p", "in": "path", "required": True, **more}


def test_no_value_in_a_path_leads_elsewhere(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, schema in enumerate(({}, MANY)):
            document = described({"/a/{p}/b": {"get": operation("a", in_path(schema=schema))}})
            user, _ = serve(tmp_path / str(number), server, document)
            count = len(server.seen)
            for value in ("a/../b", "a%2f..%2fb", "x\r\ny", "../x"):
                with pytest.raises(InvalidArgumentsError):
                    user.call("api_s_a", p=[value] if schema else value)
            assert len(server.seen) == count


QUERIES: list[tuple[dict[str, Any], str]] = [
    ({}, "p=a%20b&p=c%2Cd"),
    ({"style": "form", "explode": False}, "p=a%20b,c%2Cd"),
    ({"style": "simple"}, "p=a%20b&p=c%2Cd"),  # no style of a query
    ({"collectionFormat": "multi"}, "p=a%20b&p=c%2Cd"),
    ({"collectionFormat": "csv"}, "p=a%20b,c%2Cd"),
]


def test_lists_in_a_query_are_written_in_the_style_of_the_description(tmp_path: Path) -> None:
    with APIServer({"GET /a": echo}) as server:
        for number, (form, sent) in enumerate(QUERIES):
            is_old = "collectionFormat" in form
            item = {"name": "p", "in": "query", **form} | (MANY if is_old else {"schema": MANY})
            document = described({"/a": {"get": operation("a", item)}})
            if is_old:
                document = {"swagger": "2.0", "paths": document["paths"]}
            user, _ = serve(tmp_path / str(number), server, document)
            assert user.call("api_s_a", p=["a b", "c,d"]).success
            assert server.seen[-1].target == f"/a?{sent}", form


def rare(where: str, **form: Any) -> dict[str, Any]:
    return {"parameters": [{"name": "p", "in": where, "required": True, **form}]}


def multipart(**more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {"multipart/form-data": {"schema": THING}, **more}}}


FILE = {"name": "f", "in": "formData", "type": "file"}
RARE: list[tuple[str, dict[str, Any], str]] = [
    ("openapi", rare("path", style="label"), "parameter p is of the style label"),
    ("openapi", rare("path", style="matrix"), "parameter p is of the style matrix"),
    ("openapi", rare("query", style="spaceDelimited"), "p is of the style spaceDelimited"),
    ("openapi", rare("query", style="pipeDelimited"), "p is of the style pipeDelimited"),
    ("openapi", rare("query", content={"application/json": {}}), "parameter p is a document"),
    ("openapi", rare("cookie"), "parameter p is a cookie"),
    ("openapi", multipart(), "its body is multipart/form-data"),
    ("swagger", rare("query", collectionFormat="ssv"), "parameter p is of the style ssv"),
    ("swagger", rare("query", collectionFormat="tsv"), "parameter p is of the style tsv"),
    ("swagger", rare("query", collectionFormat="pipes"), "parameter p is of the style pipes"),
    ("swagger", {"parameters": [FILE]}, "its body is multipart/form-data"),
]


def test_an_operation_that_needs_something_rare_is_left_out_by_name(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, (version, more, why) in enumerate(RARE):
            paths = {
                "/a/{p}": {"post": operation("a") | more},
                "/b": {"post": operation("b", **multipart(**{"application/json": {}}))},
            }
            document = described(paths)
            if version == "swagger":
                document = {"swagger": "2.0", "paths": paths}
            user, text = serve(tmp_path / str(number), server, document)
            assert "s: left out: POST /a/{p}: " in text, text
            assert f"{why}, which is not supported" in text, text
            assert set(user.tools) == {"api_s_b", "api_request"}, why


PROXIED = [
    {"servers": [{"url": "http://api.example/v2"}]},
    {"servers": [{"url": "http://api.example:443/v2"}]},
    {"servers": [{"url": "{s}://api.example/v2", "variables": {"s": {"enum": ["http"]}}}]},
    {"swagger": "2.0", "host": "api.example", "basePath": "/v2", "schemes": ["http"]},
    {"swagger": "2.0", "host": "api.example", "basePath": "v2"},
    {"swagger": "2.0", "host": "https://api.example/", "basePath": "/v2"},
    {"swagger": "2.0", "host": "api.example", "basePath": "https://api.example/v2"},
    {"swagger": 2, "basePath": "v2"},
]


AT_ROOT = "https://api.example/"
NAMED_OTHERWISE: list[tuple[dict[str, Any], str]] = [
    ({"host": "evil.example", "basePath": "/v2"}, "//evil.example/v2"),
    ({"host": "api.example", "schemes": ["https", "http"]}, ""),
    ({"basePath": 7, "schemes": "x"}, ""),
]


def base_of(document: dict[str, Any]) -> tuple[str, str]:
    """Return the base URL of a description at https://api.example, and the server elsewhere."""
    at = httpx.URL("https://api.example/openapi.json")
    base, other = choose_base(
        documents.parse_document(json.dumps(document).encode()), at, at, explicit=True
    )
    return str(base), other


def test_a_service_behind_a_proxy_keeps_its_path() -> None:
    paths = {"/a": {"get": operation("a")}}
    for more in PROXIED:
        given = {"paths": paths, **more} if "swagger" in more else described(paths, **more)
        assert base_of(given) == ("https://api.example/v2", ""), more
    for more, other in NAMED_OTHERWISE:
        assert base_of({"swagger": "2.0", "paths": paths, **more}) == (AT_ROOT, other), more
    for server in (
        "https://other.example/v2",
        "http://api.example:8080/v2",
        "http://other.example/v2",
    ):
        document = described(paths, servers=[{"url": server}])
        assert base_of(document) == (AT_ROOT, server)


IN_FILES = [
    ({"swagger": "2.0", "host": "api.example", "basePath": "/v2"}, "https://api.example/v2"),
    ({"swagger": "2.0", "host": "localhost:80", "basePath": "/v2"}, "http://localhost/v2"),
    ({"openapi": "3.0.0", "servers": [{"url": "https://{org}.example"}, {"url": "//a.example"}]},
     "https://a.example/"),
]  # fmt: skip


def test_the_server_of_a_file_needs_no_scheme(tmp_path: Path) -> None:
    for document, url in IN_FILES:
        path = tmp_path / "api.json"
        path.write_text(json.dumps({**document, "paths": {}}))
        assert str(server_in(path)) == url


FORM = "application/x-www-form-urlencoded"
BODIES: list[tuple[str, Any, str, bytes]] = [
    ("*/*", {"n": 1}, "application/json", b'{"n": 1}'),
    ("application/*", {"n": 1}, "application/json", b'{"n": 1}'),
    ("application/merge-patch+json", {"n": 1}, "application/merge-patch+json", b'{"n": 1}'),
    ("text/plain", "hello", "text/plain", b"hello"),
    ("text/json", {"n": 1}, "text/json", b'{"n": 1}'),
    ("application/xml", "<n>1</n>", "application/xml", b"<n>1</n>"),
    ("application/json", [1, {"a": None}], "application/json", b'[1, {"a": null}]'),
    ("application/json", "w", "application/json", b'"w"'),
    (FORM, {"a": "x&y", "n": 2}, FORM, b"a=x%26y&n=2"),
]


def test_bodies_of_any_type_are_sent(tmp_path: Path) -> None:
    with APIServer({"POST /a": echo}) as server:
        for number, (media, value, sent_as, sent) in enumerate(BODIES):
            body = {"requestBody": {"content": {media: {"schema": {}}}, "required": True}}
            document = described({"/a": {"post": operation("a", **body)}})
            user, text = serve(tmp_path / str(number), server, document)
            assert "1 operation" in text, media
            user.call("api_s_a", body=value)
            assert server.seen[-1].headers["Content-Type"] == sent_as
            assert server.seen[-1].body == sent


def test_a_body_that_is_no_json_is_asked_for_as_text(tmp_path: Path) -> None:
    with APIServer({"POST /a": echo}) as server:
        body = {"requestBody": {"content": {"application/xml": {"schema": THING}}}}
        user, _ = serve(tmp_path, server, described({"/a": {"post": operation("a", **body)}}))
        told = user.tools["api_s_a"].description
        assert '{"type": "string", "description": "The text to send, as application/xml."}' in told
        with pytest.raises(InvalidArgumentsError, match="is not of type 'string'"):
            user.request("POST", "/a", body={"n": 1})


def test_what_is_described_in_other_files_is_named_and_can_be_sent(tmp_path: Path) -> None:
    with APIServer({"POST /a": echo}) as server:
        body = {"requestBody": {"$ref": "./bodies.yaml#/Thing"}}
        document = described({"/a": {"post": operation("a", **body)}})
        user, text = serve(tmp_path, server, document)
        assert "such as ./bodies.yaml#/Thing; what they describe is unknown" in text
        assert user.call("api_s_a", body={"n": 1}).success
        assert server.seen[-1].body == b'{"n": 1}'


def test_a_description_in_utf_16_is_read_and_a_broken_one_names_its_line() -> None:
    assert (
        documents.parse_document('{"openapi": "3.0.0", "paths": {}}'.encode("utf-16"))["paths"]
        == {}
    )
    with pytest.raises(ConfigError, match=r"line 3: found character that cannot start"):
        documents.parse_document(b"openapi: 3.0.0\npaths:\n\t/a: {}\n")


def test_versions_of_openapi_are_known() -> None:
    for version in ("3.0.4", "3.1.1", "3.2.0"):
        document = described({}) | {"openapi": version}
        assert documents.parse_document(json.dumps(document).encode()) == document


def test_headers_that_say_how_to_go_on_are_told(tmp_path: Path) -> None:
    link = '<https://x.example/a?page=2>; rel="next"'
    with APIServer() as server:
        server.routes |= {
            "GET /a": answer(b"[1]", kind="application/json", Link=link, X_Total_Count="40"),
            "GET /b": answer(b"", 201, Location="/a/7"),
            "GET /c": answer(b"slow down", 429, Retry_After="30"),
            "GET /d": answer(b"", 401, WWW_Authenticate='Bearer realm="x"'),
            "GET /e": answer(b"", 200, Location="/a?token=open-sesame-12", X_Other="no"),
        }
        paths = {f"/{each}": {"get": operation(each)} for each in "abcde"}
        server.routes["GET /openapi.json"] = json_answer(described(paths))
        user = User(tmp_path / "folder", KEY="open-sesame-12")
        user.services.register("s", server.url, auth_env="KEY")
        assert user.call("api_s_a").output == f"[\n 1\n]\nLink: {link}\nX-Total-Count: 40"
        assert user.call("api_s_b").output == "201 Created\nLocation: /a/7"
        assert "slow down\nRetry-After: 30" in str(user.call("api_s_c").error)
        assert 'WWW-Authenticate: Bearer realm="x"' in str(user.call("api_s_d").error)
        output = user.call("api_s_e").output
        assert "open-sesame" not in output
        assert "X-Other" not in output


KEYS: list[tuple[dict[str, Any], str]] = [
    (
        {"type": "apiKey", "in": "header", "name": "X-Key"},
        "register it again with --header-env X-Key=",
    ),
    ({"type": "http", "scheme": "bearer"}, "register it again with --auth-env VARIABLE"),
    ({"type": "http", "scheme": "basic"}, "with --header-env Authorization=VARIABLE"),
    ({"type": "oauth2", "flows": {}}, "with --auth-env VARIABLE"),
    (
        {"type": "apiKey", "in": "query", "name": "api_key"},
        "a key in its query (`api_key`), which is never",
    ),
    (
        {"type": "apiKey", "in": "cookie", "name": "sid"},
        "a key in its cookies (`sid`), which is never",
    ),
]


def test_it_is_said_how_a_service_gets_its_key(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, (scheme, words) in enumerate(KEYS):
            document = described(
                {"/a": {"get": operation("a")}}, components={"securitySchemes": {"k": scheme}}
            )
            _, text = serve(tmp_path / str(number), server, document)
            assert words in text, text
        other = User(tmp_path / "given", KEY="open-sesame-12")
        text = other.services.register("s", server.url, header_env={"X-Key": "KEY"})
        assert "register it again" not in text


YAML = """\
openapi: 3.0.3
info: {title: Words, version: 1.0}
paths:
  /a:
    get:
      operationId: a
      parameters:
      - {name: c, in: query, schema: {enum: [NO, on, off, yes, 12:30, 2024-01-01, 1_0]}}
      - {name: n, in: query, schema: {type: integer, default: 0777, enum: [010, 0777]}}
      responses: {200: {description: fine}}
"""


def test_words_of_yaml_are_what_openapi_means(tmp_path: Path) -> None:
    with APIServer({"GET /openapi.yaml": answer(YAML.encode()), "GET /a": echo}) as server:
        user = User(tmp_path / "folder")
        user.services.register("s", f"{server.url}/openapi.yaml")
        for word in ("NO", "on", "off", "yes", "12:30", "2024-01-01", "1_0"):
            assert user.call("api_s_a", c=word).success, word
        assert user.call("api_s_a", n=10).success
        assert user.call("api_s_a", n=777).success
