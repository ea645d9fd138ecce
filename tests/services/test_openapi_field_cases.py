"""Services as the field describes them: servers, styles, bodies, headers, keys, words of YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from api_lab import User, run

from ipyagent.errors import InvalidArgumentsError
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


STYLES: list[tuple[dict[str, Any], Any, str]] = [
    ({"schema": MANY}, ["a", "b"], "a,b"),
    ({"schema": MANY}, ["a,b", "c/d"], "a%2Cb,c%2Fd"),
    ({"schema": THING}, {"k": "v", "l": "w"}, "k,v,l,w"),
    ({"schema": THING, "explode": True}, {"k": "v", "l": "w"}, "k=v,l=w"),
    ({"content": {"application/json": {"schema": THING}}}, {"k": "v"}, "%7B%22k%22%3A%22v%22%7D"),
]


def test_values_in_a_path_are_written_in_the_style_of_the_description(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, (form, value, sent) in enumerate(STYLES):
            document = described({"/a/{p}/b": {"get": operation("a", in_path(**form))}})
            user, _ = serve(tmp_path / str(number), server, document)
            server.routes[f"GET /a/{sent}/b"] = echo
            assert user.call("api_s_a", p=value).success, (form, server.seen[-1].target)


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


SERVERS: list[tuple[Any, str]] = [
    ([{"url": ""}], "/a"),
    ([{"url": "/"}], "/a"),
    ([{"url": "v2"}], "/v2/a"),
    ([{"url": "./v2/"}], "/v2/a"),
    ([{"url": "/{v}", "variables": {"v": {"enum": ["v3", "v4"]}}}], "/v3/a"),
    ([{"url": "/{v}", "variables": {"v": {"default": 4}}}], "/4/a"),
]


def test_servers_are_read_as_they_are_written_in_the_field(tmp_path: Path) -> None:
    with APIServer() as server:
        for number, (listed, place) in enumerate(SERVERS):
            server.routes[f"GET {place}"] = echo
            document = described({"/a": {"get": operation("a")}}, servers=listed)
            user, _ = serve(tmp_path / str(number), server, document)
            assert user.call("api_s_a").success, listed
            assert server.seen[-1].target == place


BODIES = [
    ("*/*", {"n": 1}, "application/json", b'{"n": 1}'),
    ("application/*", {"n": 1}, "application/json", b'{"n": 1}'),
    ("application/merge-patch+json", {"n": 1}, "application/merge-patch+json", b'{"n": 1}'),
    ("text/plain", "hello", "text/plain", b"hello"),
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


@pytest.mark.parametrize("version", ["3.0.4", "3.1.1", "3.2.0"])
def test_versions_of_openapi_are_known(tmp_path: Path, version: str) -> None:
    with APIServer({"GET /a": echo}) as server:
        document = described({"/a": {"get": operation("a")}}) | {"openapi": version}
        user, _ = serve(tmp_path, server, document)
        assert user.call("api_s_a").success


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
        tool = user.tools["api_s_a"]
        for word in ("NO", "on", "off", "yes", "12:30", "2024-01-01", "1_0"):
            assert run(tool, {"c": word}).success, word
        assert run(tool, {"n": 10}).success
        assert run(tool, {"n": 777}).success
