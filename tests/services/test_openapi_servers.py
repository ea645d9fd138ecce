"""Servers of single paths and operations, and arguments under a service's own names."""

import json
from pathlib import Path
from typing import Any

import pytest
from api_lab import User

from ipyagent.errors import InvalidArgumentsError
from servers.openapi_server import (
    APIServer,
    described,
    echo,
    json_answer,
    operation,
    parameter,
)


def servers(*listed: Any) -> dict[str, Any]:
    return {"servers": [each if isinstance(each, dict) else {"url": each} for each in listed]}


def with_url(value: Any, url: str) -> Any:
    """Return a part of a description with the server's address for HERE."""
    return json.loads(json.dumps(value).replace("HERE", url))


VARIABLES = {
    "url": "HERE/{stage}/v{n}",
    "variables": {"stage": {"default": "beta", "enum": ["beta"]}, "n": {"default": 3}},
}
GET_A = {"get": operation("a")}

# The path's item; where a request of it arrives.
PLACES = [
    ({**GET_A, **servers("HERE/v2")}, "/v2/a"),
    ({**GET_A, **servers("HERE/v2/")}, "/v2/a"),
    ({"get": operation("a", **servers("HERE/v3")), **servers("HERE/v2")}, "/v3/a"),
    ({"get": operation("a", **servers("/up"))}, "/up/a"),
    ({"get": operation("a", **servers("next"))}, "/next/a"),
    ({"get": operation("a", **servers("/"))}, "/a"),
    ({"get": operation("a", **servers("HERE"))}, "/a"),
    ({"get": operation("a", **servers(VARIABLES))}, "/beta/v3/a"),
    ({"get": operation("a", **servers("https://other.example/x", "HERE/mine"))}, "/mine/a"),
    ({**GET_A, **servers()}, "/v1/a"),
    ({**GET_A, "servers": None}, "/v1/a"),
    ({**GET_A, **servers("HERE/v1")}, "/v1/a"),
]


def test_a_request_goes_to_the_server_of_its_operation(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, (item, place) in enumerate(PLACES):
            document = described({"/a": item, "/b": {"get": operation("b")}}, **servers("HERE/v1"))
            server.routes = {
                "GET /openapi.json": json_answer(with_url(document, server.url)),
                f"GET {place}": echo,
                "GET /v1/b": echo,
            }
            user = User(tmp_path / str(number))
            assert "left out" not in user.services.register("s", server.url), item
            assert user.call("api_s_a").success, item
            assert user.request("GET", "/a").success
            assert user.call("api_s_b").success
            assert server.targets()[-3:] == [f"GET {place}", f"GET {place}", "GET /v1/b"], item
            shown = user.tools["api_s_a"].preview
            assert shown(**user.place("api_s_a")).text.startswith(f"GET {server.url}{place}")
            again = User(tmp_path / str(number)).call("api_s_a")  # as it was stored
            assert again.success, item


OTHER_ORIGINS = [
    "https://other.example/v1", "//other.example", "http://127.0.0.1:1/v1", "https://127.0.0.1",
    "HERE/{unknown}", "http://u:p@127.0.0.1/v1", "HERE/a/%2e%2e/b", "http://[broken",
]  # fmt: skip


def test_an_operation_of_another_origin_is_left_out_with_a_notice(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, elsewhere in enumerate(OTHER_ORIGINS):
            paths = {"/a": {"get": operation("a", **servers(elsewhere)), "put": operation("p")},
                     "/b": {"get": operation("b"), **servers(elsewhere)}}  # fmt: skip
            document = with_url(described(paths, **servers("HERE/v1")), server.url)
            server.routes = {"GET /openapi.json": json_answer(document)}
            server.seen.clear()
            user = User(tmp_path / str(number))
            said = user.services.register("s", server.url)
            assert set(user.tools) == {"api_s_p", "api_request"}, elsewhere
            assert "left out: GET /a: its server is " in said
            assert "left out: GET /b: its server is " in said
            with pytest.raises(InvalidArgumentsError, match="has no GET /a"):
                user.request("GET", "/a")
            assert server.targets() == ["GET /openapi.json"], elsewhere


def test_names_arrive_as_they_are(tmp_path: Path) -> None:
    item = {"type": "object", "properties": {"Start Time<": {"type": "string"}}}
    body = {"type": "object", "properties": {"@id": {"type": "integer"},
            "items[]": {"type": "array", "items": item}}, "required": ["@id"]}  # fmt: skip
    paths = {
        "/a/{the:id}": {
            "post": operation(
                "a",
                parameter("path", "the:id"),
                parameter("query", "filter[name]"),
                parameter("query", "filter<name>"),
                parameter("query", "ids", type="array"),
                requestBody={"content": {"application/json": {"schema": body}}},
            )
        }
    }
    routes = {"GET /openapi.json": json_answer(described(paths)), "POST /a/7": echo}
    with APIServer(routes) as server:
        user = User(tmp_path / "folder")
        user.services.register("s", server.url)
        content = {"@id": 1, "items[]": [{"Start Time<": "now"}]}
        query = {"filter[name]": "x", "filter<name>": "y"}
        assert user.request("POST", "/a/7", query=query, body=content).success
        assert server.seen[-1].target == "/a/7?filter%5Bname%5D=x&filter%3Cname%3E=y"
        sent = json.loads(server.seen[-1].body)
        assert sent == {"@id": 1, "items[]": [{"Start Time<": "now"}]}
        assert "filter[name] (query)" in user.services._list_services()[0].operations[0].line()
