"""Registration: the places of descriptions, and the base URL of requests."""

import json
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from api_lab import User

from ipyagent.config import MCPServerConfig
from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.services.openapi import discovery, transport
from servers.openapi_server import (
    SHOP,
    APIServer,
    answer,
    bomb,
    described,
    dribble,
    drop,
    echo,
    endless,
    json_answer,
    operation,
    parameter,
    redirect,
    silence,
)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "folder")


@pytest.mark.spec("P39")
@pytest.mark.parametrize("place", transport.WELL_KNOWN)
def test_a_description_is_found_at_each_of_six_places(place: str, user: User) -> None:
    with APIServer({f"GET {place}": json_answer(SHOP)}) as server:
        said = user.services.register("s", server.url)
        expected = transport.WELL_KNOWN[: transport.WELL_KNOWN.index(place) + 1]
        assert server.targets() == [f"GET {each}" for each in expected]
    assert "4 operations" in said
    assert "api_s_getItem" in user.tools


@pytest.mark.spec("P39")
def test_an_invalid_description_is_skipped_and_logged(
    user: User, caplog: pytest.LogCaptureFixture
) -> None:
    routes = {
        "GET /openapi.json": answer(b"<html>no</html>", kind="text/html"),
        "GET /swagger.json": json_answer({"openapi": "3.0.0"}),
        "GET /openapi.yaml": answer(b"oops", 500),
        "GET /v3/api-docs": json_answer(SHOP, 403),
        "GET /swagger/v1/swagger.json": drop,
        "GET /api/openapi.json": json_answer(SHOP),
    }
    with APIServer(routes) as server, caplog.at_level(logging.WARNING, "ipyagent"):
        assert "4 operations" in user.services.register("s", server.url)
        assert len(server.seen) == 6
    logged = [record.getMessage() for record in caplog.records]
    assert len([each for each in logged if "no description at" in each]) == 5
    assert any("it answered 403" in each for each in logged)


@pytest.mark.spec("P39")
@pytest.mark.parametrize("trap", [silence, dribble, endless, bomb])
def test_an_endless_place_takes_no_more_than_its_time_limit(
    trap: Any, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert discovery.TRY_SECONDS == 6.0
    monkeypatch.setattr(discovery, "TRY_SECONDS", 1.5)
    routes = {"GET /openapi.json": trap, "GET /swagger.json": json_answer(SHOP)}
    with APIServer(routes) as server:
        assert "4 operations" in user.services.register("s", server.url)


@pytest.mark.spec("P40")
def test_a_service_that_is_offline_is_registered_and_refreshed_later(user: User) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    said = user.services.register("s", f"http://127.0.0.1:{port}")
    assert "cannot be reached" in said
    assert "registered without tools" in said
    assert user.services.tools() == []
    assert "refresh s" in user.services.notices()[0]
    user.services.deactivate("s")
    assert user.services.notices() == []
    user.services.activate("s")
    assert "no tools yet" in user.services.describe_services()
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        # The same port is not to be had for sure, so the service is found by another name of it.
        user.names["later.example"] = []
        assert "no address" in user.services.register("t", f"http://later.example:{server.port}")
        user.names["later.example"] = ["127.0.0.1"]
        said = user.services.refresh("t")
    assert "4 operations" in said
    assert "later.example is at 127.0.0.1" in said
    assert "api_t_getItem" in user.tools


@pytest.mark.spec("P40")
@pytest.mark.parametrize("other", ["", "/", "/docs", "/redoc/", "/openapi.json"])
def test_the_same_address_twice_is_the_same_service(other: str, user: User) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        user.services.register("s", server.url)
        upper = server.url.replace("http", "HTTP")
        said = user.services.register("again", f"{upper}{other}", auth_env="TOKEN")
    assert "registered already, as s" in said
    assert len(user.services.describe_services().split("\n")) == 1
    assert "TOKEN (not set)" in user.services.describe_services()
    with pytest.raises(ConfigError, match="remove it first"):
        user.services.register("s", "http://127.0.0.1:1")


@pytest.mark.spec("P40", "P11")
def test_services_are_stored_refreshed_switched_off_and_removed(user: User) -> None:
    routes = {"GET /openapi.json": json_answer(SHOP)}
    with APIServer(routes) as server:
        user.services.register("s", server.url)
        user.services = user.restart()
        assert len(user.tools) == 5
        assert len(server.seen) == 1  # the tools are there without a network
        other = User(user.folder.parent / "other")
        assert other.services.tools() == []

        user.services.deactivate("s")
        assert user.services.tools() == []
        assert "inactive" in user.services.describe_services()
        user.services.activate("s")
        assert len(user.tools) == 5

        changed = json.loads(json.dumps(SHOP))
        items = changed["paths"].pop("/items/{id}")
        items["delete"]["operationId"] = "getItem"
        del items["get"]
        changed["paths"]["/everything/{id}"] = items
        routes["GET /openapi.json"] = json_answer(changed)
        said = user.services.refresh()
        assert "getItem was GET /items/{id} and is DELETE /everything/{id}" in said
        assert "gone: DELETE /items/{id}" in said
        routes["GET /openapi.json"] = answer(b"", 500)
        assert "known before are kept" in user.services.refresh("s")
        assert "api_s_getItem" in user.tools
    user.services.remove("s")
    assert user.services.tools() == []
    assert "no services" in user.services.describe_services()
    with pytest.raises(ConfigError, match="no service is named 's'"):
        user.services.refresh("s")
    data = user.folder.parent / "user/data/ipyagent/services"
    assert list(data.iterdir()) == []
    assert list(user.folder.iterdir()) == []  # nothing is ever kept in the folder


@pytest.mark.spec("D23")
def test_an_invalid_address_is_not_registered(user: User) -> None:
    for target in (
        *("ftp://h", "file:///etc/passwd", "http://u:p@h/", "//evil", "~nobody", "x\0.json"),
        "a" * 9_999,
    ):
        with pytest.raises(ConfigError):
            user.services.register("s", target)
    assert "no services" in user.services.describe_services()


def test_a_clouds_metadata_service_cannot_be_registered(user: User) -> None:
    user.names["metadata.google.internal"] = ["169.254.169.254"]
    for host in ("169.254.169.254", "0xa9fea9fe", "metadata.google.internal"):
        with pytest.raises(ConfigError, match="credentials"):
            user.services.register("s", f"http://{host}/latest")
    assert "no services" in user.services.describe_services()


NAMED: list[tuple[Any, str, bool]] = [
    ([{"url": "/v2"}], "/v2", False),
    ([{"url": "v2/"}], "/v2", False),
    ([{"url": "https://evil.example/v1"}], "", True),
    ([{"url": "https://evil.example"}, {"url": "/v3"}], "/v3", False),
    ([{"url": "//evil.example/v1"}], "", True),
    ([{"url": "http://127.0.0.1:1/v1"}], "", True),
    ([{"url": "http://u:p@HOST/v1"}], "", True),
    ([{"url": "HOST/v1"}], "/v1", False),
    ([{"url": "/{x}", "variables": {"x": {"default": "v4"}}}], "/v4", False),
    ([{"url": "/a/%2e%2e/b"}], "", True),
    ([{"url": "http://xn--/"}, {"url": "/v5"}], "/v5", False),
    ([{"url": 7}, None, {"url": "http://[::"}], "", False),
    (None, "", False),
    ("nonsense", "", False),
    ([{"url": ""}], "", False),
    ([{"url": "/"}], "", False),
    ([{"url": "./v2/"}], "/v2", False),
    ([{"url": "/{v}", "variables": {"v": {"enum": ["v3", "v4"]}}}], "/v3", False),
    ([{"url": "/{v}", "variables": {"v": {"default": 4}}}], "/4", False),
    ([{"url": " /v2/#top "}], "/v2", False),
    ([{"url": "/v2?api-version=3"}], "/v2?api-version=3", False),
    ([{"url": "http://localhost:PORT/v2"}], "/v2", False),
    ([{"url": "http://0.0.0.0:PORT/v2/"}], "/v2", False),
]


def test_servers_elsewhere_are_ignored_with_a_notice(tmp_path: Path) -> None:
    with APIServer() as server, APIServer() as canary:
        for number, (servers, base, told) in enumerate(NAMED):
            path, mark, query = base.partition("?")
            place = f"GET {path}/items{mark}{query}"
            text = json.dumps(described(SHOP["paths"], servers=servers))
            text = text.replace("u:p@HOST", f"u:p@127.0.0.1:{server.port}")
            text = text.replace("HOST", server.url).replace("PORT", str(server.port))
            text = text.replace("127.0.0.1:1/", f"127.0.0.1:{canary.port}/")
            server.routes = {
                "GET /openapi.json": answer(text.encode(), kind="application/json"),
                place: json_answer("here"),
            }
            user = User(tmp_path / str(number))
            said = user.services.register("s", server.url)
            assert ("it names other servers" in said) is told, servers
            assert user.request("GET", "/items").output == '"here"', servers
            assert server.targets()[-1] == place, servers
            assert canary.seen == [], servers


def test_a_base_path_is_used_unless_the_paths_contain_it(user: User) -> None:
    full = described({"/app/items": {"get": operation("a")}})
    routes = {"GET /app/openapi.json": json_answer(SHOP), "GET /app/items": json_answer(1)}
    with APIServer(routes) as server:
        user.services.register("s", f"{server.url}/app/docs")
        assert user.request("GET", "/items").success
        routes["GET /app/openapi.json"] = json_answer(full)
        user.services.refresh()
        assert user.request("GET", "/app/items").success
        assert server.targets()[-1] == "GET /app/items"


def test_a_file_describes_a_service_by_its_servers_or_by_base(user: User) -> None:
    file = user.folder / "shop.yaml"
    with APIServer({"GET /items": echo, "GET /v1/items": echo}) as server:
        file.write_text(json.dumps(SHOP))
        with pytest.raises(ConfigError, match="add --base"):
            user.services.register("s", "shop.yaml")
        user.services.register("s", "shop.yaml", base=f"{server.url}/")
        assert user.request("GET", "/items").success
        file.write_text(json.dumps(described(SHOP["paths"], servers=[{"url": f"{server.url}/v1"}])))
        said = user.services.register("t", str(file))
        assert f"{server.url}/v1" in said
        assert user.call("api_t_listItems", limit=2).success
        assert server.targets() == ["GET /items", "GET /v1/items?limit=2"]
        file.unlink()
        assert "cannot be read" in user.services.refresh("t")
        assert "api_t_listItems" in user.tools
    for missing in ("shop.yaml", "./nothing", "sub/x.json", str(file)):
        with pytest.raises(ConfigError, match="not found"):
            user.services.register("u", missing)
    file.write_text("nonsense")
    with pytest.raises(ConfigError, match=r"shop.yaml: it is not an OpenAPI description"):
        user.services.register("u", "shop.yaml")


def test_a_description_on_another_host_needs_a_base_and_gets_no_credentials(tmp_path: Path) -> None:
    user = User(tmp_path / "folder", TOKEN="open-sesame-12")
    with APIServer({"GET /items": echo}) as server, APIServer() as library:
        library.routes["GET /specs/shop.json"] = json_answer(SHOP)
        where = f"{library.url}/specs/shop.json"
        user.services.register("s", where, base=server.url, auth_env="TOKEN")
        assert user.request("GET", "/items").success
        assert "Authorization" not in library.seen[0].headers
        assert server.seen[-1].headers["Authorization"] == "Bearer open-sesame-12"


def test_a_description_behind_a_login_is_read_with_the_credentials(tmp_path: Path) -> None:
    user = User(tmp_path / "folder", KEY="open-sesame-12")
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server, APIServer() as other:
        user.services.register("s", server.url, header_env={"X-Key": "KEY"})
        assert server.seen[0].headers["X-Key"] == "open-sesame-12"
        other.routes["GET /openapi.json"] = json_answer(SHOP)
        server.routes["GET /openapi.json"] = redirect(f"{other.url}/openapi.json")
        assert "not followed" in user.services.refresh("s")
        assert other.seen == []
        server.routes |= {
            "GET /openapi.json": redirect("/moved.json", 308),
            "GET /moved.json": json_answer(SHOP),
        }
        assert "4 operations" in user.services.refresh("s")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "width"), [(64, 40), (1_500, 1)])
def test_a_description_in_any_script_is_stored_for_the_next_kernel(
    number: int, width: int, user: User
) -> None:
    said = "目录" * 90
    fields = {f"{i}": {"type": "string", "description": said} for i in range(width)}
    media = {"application/json": {"schema": {"type": "object", "properties": fields}}}
    paths = {
        f"/目录{i}": {"post": operation(f"o{i}", summary=said, requestBody={"content": media})}
        for i in range(number)
    }
    with APIServer({"GET /openapi.json": json_answer(described(paths))}) as server:
        user.services.register("s", server.url)
        server.routes["POST /%E7%9B%AE%E5%BD%955"] = echo
        user.services = user.restart()
        assert user.services.notices() == []
        assert user.request("POST", "/目录5", body={}).success


@pytest.mark.spec("A21", "A22")
def test_a_service_in_the_settings_has_tools_after_a_refresh(tmp_path: Path) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP), "GET /items": echo}) as server:
        config = MCPServerConfig(
            name="set",
            kind="openapi",
            url=server.url,
            token="inline-token-1",
            headers={"X-More": "more-of-it-22"},
            get_unasked=True,
        )
        user = User(tmp_path / "folder", config)
        assert "refresh set" in user.services.notices()[0]
        assert server.seen == []
        user.services.refresh("set")
        user.services = user.restart()
        result = user.call("api_set_listItems")
        assert server.seen[-1].headers["Authorization"] == "Bearer inline-token-1"
        assert server.seen[-1].headers["X-More"] == "more-of-it-22"
        assert "inline-token-1" not in result.output
        assert "in the settings" in user.services.describe_services()
        with pytest.raises(ConfigError, match="in the settings"):
            user.services.remove("set")
        with pytest.raises(ConfigError, match="in the settings already"):
            user.services.register("mine", server.url)
        kept = (tmp_path / "user/data/ipyagent/services.json").read_text()
        assert "inline-token-1" not in kept
        user.services.deactivate("set")
        assert user.services.tools() == []
        user.services.activate("set")
        user.configured[0] = config.model_copy(update={"url": f"{server.url}/other"})
        assert user.services.tools() == []  # another address is another service
        user.configured[0] = config.model_copy(update={"disabled": True})
        assert user.services.describe_services().startswith("no services")


def test_stored_operations_that_are_spoilt_are_no_tools(user: User) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        user.services.register("s", server.url)
    (file,) = (user.folder.parent / "user/data/ipyagent/services").glob("*.json")
    assert len(user.restart().tools()) == 5
    piped = {"name": "p", "argument": "p", "where": "query", "style": "pipeDelimited"}
    operation = {"name": "o", "method": "GET", "path": "/o", "parameters": [piped]}
    for spoilt in (
        {"operations": [json.dumps(operation)]},  # it would be sent in another style
        {"operations": "spoilt"},
        {"operations": ["{"]},
        {"packed": "of older versions"},
    ):
        file.write_text(json.dumps(spoilt))
        assert user.restart().tools() == []


def test_an_unexpected_failure_while_reading_is_reported(user: User) -> None:
    """A number in place of a name is too large for Python to convert to text."""
    text = "openapi: 3.0.0\npaths: {/a: {get: {operationId: 0x1" + "0" * 5_000 + "}}}"
    with APIServer({"GET /openapi.json": answer(text.encode())}) as server:
        said = user.services.register("s", server.url)
    assert "s: it cannot be read: Exceeds the limit" in said
    assert "registered without tools" in said


def test_a_damaged_registry_is_reported_and_stops_nothing(user: User) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        user.services.register("s", server.url)
        file = user.folder.parent / "user/data/ipyagent/services.json"
        file.write_text(file.read_text().replace('"url"', '"lru"'))
        assert user.services.tools() == []
        file.write_text("{")
        assert user.services.tools() == []
        assert "services.json" in user.services.notices()[0]
        with pytest.raises(ConfigError, match="move it away"):
            user.services.register("s", server.url)
        file.unlink()
        user.services.register("s", server.url)
    assert "api_s_getItem" in user.tools


def test_two_kernels_that_register_at_once_both_succeed(user: User) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        names = [f"s{i}" for i in range(6)]
        threads = [
            threading.Thread(
                target=user.restart().register, args=(name, f"{server.url}/{name}/openapi.json")
            )
            for name in names
        ]
        server.routes |= {f"GET /{name}/openapi.json": json_answer(SHOP) for name in names}
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(user.services.describe_services().split("\n")) == 6


def test_a_services_name_must_be_valid_in_tool_names(user: User) -> None:
    for name in ("", "1a", "a b", "ü", "a" * 31, "a.b", "../x"):
        with pytest.raises(ConfigError, match="not a valid name for a service"):
            user.services.register(name, "http://h")


def test_a_secret_in_place_of_a_variables_name_is_refused(user: User) -> None:
    options: list[dict[str, Any]] = [
        {"auth_env": "sk-secret-key"},
        {"header_env": {"X-Key": "a secret"}},
        {"header_env": {"Host": "VAR"}},
        {"header_env": {"X: y\r\nZ": "VAR"}},
    ]
    for each in options:
        with pytest.raises(ConfigError) as caught:
            user.services.register("s", "http://127.0.0.1:1", **each)
        assert "secret-key" not in str(caught.value)


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
