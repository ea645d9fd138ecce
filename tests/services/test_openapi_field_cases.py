"""Services as the field describes them: servers, styles, bodies, headers, keys, words of YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_lab import User

from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.services.openapi import documents
from ipyagent.services.openapi.discovery import choose_base, server_in
from servers.openapi_server import APIServer, answer, described, echo, json_answer, operation

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
