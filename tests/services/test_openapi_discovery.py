"""Registering: where a description is looked for, and where requests go then."""

import json
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from api_lab import Person

from ipyagent.config import MCPServerConfig
from ipyagent.errors import ConfigError
from ipyagent.services.openapi import discovery, urls
from ipyagent.services.openapi.packed import unpack
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
    redirect,
    silence,
)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "folder")


@pytest.mark.spec("P39")
@pytest.mark.parametrize("place", urls.WELL_KNOWN)
def test_a_description_is_found_at_each_of_six_places(place: str, person: Person) -> None:
    with APIServer({f"GET {place}": json_answer(SHOP)}) as server:
        said = person.services.register("s", server.url)
        expected = urls.WELL_KNOWN[: urls.WELL_KNOWN.index(place) + 1]
        assert server.targets() == [f"GET {each}" for each in expected]
    assert "4 operations" in said
    assert "api_s_getItem" in person.tools


@pytest.mark.spec("P39")
def test_what_is_no_description_is_passed_over_and_logged(
    person: Person, caplog: pytest.LogCaptureFixture
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
        assert "4 operations" in person.services.register("s", server.url)
        assert len(server.seen) == 6
    logged = [record.getMessage() for record in caplog.records]
    assert len([each for each in logged if "no description at" in each]) == 5
    assert any("it answered 403" in each for each in logged)


@pytest.mark.spec("P39")
@pytest.mark.parametrize("trap", [silence, dribble, endless, bomb])
def test_a_place_that_never_ends_costs_its_time_and_no_more(
    trap: Any, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert discovery.TRY_SECONDS == 6.0
    monkeypatch.setattr(discovery, "TRY_SECONDS", 1.5)
    routes = {"GET /openapi.json": trap, "GET /swagger.json": json_answer(SHOP)}
    with APIServer(routes) as server:
        assert "4 operations" in person.services.register("s", server.url)


@pytest.mark.spec("P40")
def test_a_service_that_is_offline_is_registered_and_refreshed_later(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    said = person.services.register("s", f"http://127.0.0.1:{port}")
    assert "cannot be reached" in said
    assert "registered without tools" in said
    assert person.services.tools() == []
    assert "refresh s" in person.services.notices()[0]
    assert "no tools yet" in person.services.listed()
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        # The same port is not to be had for sure, so the service is found by another name of it.
        person.names["later.example"] = []
        assert "no address" in person.services.register("t", f"http://later.example:{server.port}")
        person.names["later.example"] = ["127.0.0.1"]
        said = person.services.refresh("t")
    assert "4 operations" in said
    assert "later.example is at 127.0.0.1" in said
    assert "api_t_getItem" in person.tools


@pytest.mark.spec("P40")
@pytest.mark.parametrize("other", ["", "/", "/docs", "/redoc/", "/openapi.json"])
def test_the_same_address_twice_is_the_same_service(other: str, person: Person) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        person.services.register("s", server.url)
        upper = server.url.replace("http", "HTTP")
        said = person.services.register("again", f"{upper}{other}", auth_env="TOKEN")
    assert "registered already, as s" in said
    assert len(person.services.listed().split("\n")) == 1
    assert "TOKEN (not set)" in person.services.listed()
    with pytest.raises(ConfigError, match="remove it first"):
        person.services.register("s", "http://127.0.0.1:1")


@pytest.mark.spec("P40", "P11")
def test_services_last_are_refreshed_switched_off_and_removed(person: Person) -> None:
    routes = {"GET /openapi.json": json_answer(SHOP)}
    with APIServer(routes) as server:
        person.services.register("s", server.url)
        person.services = person.restarted()
        assert len(person.tools) == 5
        assert len(server.seen) == 1  # the tools are there without a network
        other = Person(person.folder.parent / "other")
        assert other.services.tools() == []

        person.services.deactivate("s")
        assert person.services.tools() == []
        assert "inactive" in person.services.listed()
        person.services.activate("s")
        assert len(person.tools) == 5

        changed = json.loads(json.dumps(SHOP))
        items = changed["paths"].pop("/items/{id}")
        items["delete"]["operationId"] = "getItem"
        del items["get"]
        changed["paths"]["/everything/{id}"] = items
        routes["GET /openapi.json"] = json_answer(changed)
        said = person.services.refresh()
        assert "getItem was GET /items/{id} and is DELETE /everything/{id}" in said
        assert "gone: DELETE /items/{id}" in said
        routes["GET /openapi.json"] = answer(b"", 500)
        assert "stays" in person.services.refresh("s")
        assert "api_s_getItem" in person.tools
    person.services.remove("s")
    assert person.services.tools() == []
    assert "no services" in person.services.listed()
    with pytest.raises(ConfigError, match="no service is named 's'"):
        person.services.refresh("s")
    data = person.folder.parent / "person/data/ipyagent/services"
    assert list(data.iterdir()) == []
    assert list(person.folder.iterdir()) == []  # nothing is ever kept in the folder


@pytest.mark.spec("D23")
@pytest.mark.parametrize(
    "target",
    [
        "ftp://h",
        "file:///etc/passwd",
        "http://u:p@h/",
        "//evil",
        "~nobody",
        "x\0.json",
        "a" * 9_999,
    ],
)
def test_what_is_no_address_of_a_service_is_not_registered(target: str, person: Person) -> None:
    with pytest.raises(ConfigError):
        person.services.register("s", target)
    assert "no services" in person.services.listed()


@pytest.mark.parametrize("host", ["169.254.169.254", "0xa9fea9fe", "metadata.google.internal"])
def test_a_clouds_metadata_cannot_be_registered(host: str, person: Person) -> None:
    person.names["metadata.google.internal"] = ["169.254.169.254"]
    with pytest.raises(ConfigError, match="credentials"):
        person.services.register("s", f"http://{host}/latest")
    assert "no services" in person.services.listed()


@pytest.mark.parametrize(
    ("servers", "base", "told"),
    [
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
    ],
)
def test_servers_elsewhere_are_ignored_with_a_notice(
    servers: Any, base: str, told: bool, person: Person
) -> None:
    routes = {f"GET {base}/items": json_answer("here")}
    with APIServer(routes) as server, APIServer() as canary:
        text = json.dumps(described(SHOP["paths"], servers=servers))
        text = text.replace("u:p@HOST", f"u:p@127.0.0.1:{server.port}").replace("HOST", server.url)
        text = text.replace("127.0.0.1:1/", f"127.0.0.1:{canary.port}/")
        routes["GET /openapi.json"] = answer(text.encode(), kind="application/json")
        said = person.services.register("s", server.url)
        assert ("it names other servers" in said) is told
        assert person.request("GET", "/items").output == '"here"'
        assert server.targets()[-1] == f"GET {base}/items"
        assert canary.seen == []


def test_a_base_path_counts_unless_the_paths_name_it_themselves(person: Person) -> None:
    full = described({"/app/items": {"get": operation("a")}})
    routes = {"GET /app/openapi.json": json_answer(SHOP), "GET /app/items": json_answer(1)}
    with APIServer(routes) as server:
        person.services.register("s", f"{server.url}/app/docs")
        assert person.request("GET", "/items").success
        routes["GET /app/openapi.json"] = json_answer(full)
        person.services.refresh()
        assert person.request("GET", "/app/items").success
        assert server.targets()[-1] == "GET /app/items"


@pytest.mark.parametrize(
    ("more", "base"),
    [
        ({"basePath": "/v2"}, "/v2"),
        ({"host": "evil.example", "basePath": "/v2"}, ""),
        ({"host": "HOST", "basePath": "/v2", "schemes": ["http"]}, "/v2"),
        ({"host": "HOST", "schemes": ["https", "http"]}, ""),
        ({"basePath": 7, "schemes": "x"}, ""),
    ],
)
def test_swaggers_host_and_base_path(more: dict[str, Any], base: str, person: Person) -> None:
    routes = {f"GET {base}/items": json_answer("here")}
    with APIServer(routes) as server:
        paths = {"/items": {"get": {"operationId": "a", "responses": {}}}}
        document = {"swagger": "2.0", "info": {}, "paths": paths, **more}
        text = json.dumps(document).replace("HOST", f"127.0.0.1:{server.port}")
        routes["GET /swagger.json"] = answer(text.encode(), kind="application/json")
        person.services.register("s", server.url)
        assert person.call("api_s_a").output == '"here"'
        assert server.targets()[-1] == f"GET {base}/items"


def test_a_file_describes_a_service_by_its_servers_or_by_base(person: Person) -> None:
    file = person.folder / "shop.yaml"
    with APIServer({"GET /items": echo, "GET /v1/items": echo}) as server:
        file.write_text(json.dumps(SHOP))
        with pytest.raises(ConfigError, match="add --base"):
            person.services.register("s", "shop.yaml")
        person.services.register("s", "shop.yaml", base=f"{server.url}/")
        assert person.request("GET", "/items").success
        file.write_text(json.dumps(described(SHOP["paths"], servers=[{"url": f"{server.url}/v1"}])))
        said = person.services.register("t", str(file))
        assert f"{server.url}/v1" in said
        assert person.call("api_t_listItems", limit=2).success
        assert server.targets() == ["GET /items", "GET /v1/items?limit=2"]
        file.unlink()
        assert "cannot be read" in person.services.refresh("t")
        assert "api_t_listItems" in person.tools
    for missing in ("shop.yaml", "./nothing", "sub/x.json", str(file)):
        with pytest.raises(ConfigError, match="not found"):
            person.services.register("u", missing)
    file.write_text("nonsense")
    with pytest.raises(ConfigError, match=r"shop.yaml: it is no description"):
        person.services.register("u", "shop.yaml")


def test_a_description_elsewhere_needs_a_base_and_gets_no_credentials(tmp_path: Path) -> None:
    person = Person(tmp_path / "folder", TOKEN="open-sesame-12")
    with APIServer({"GET /items": echo}) as server, APIServer() as library:
        library.routes["GET /specs/shop.json"] = json_answer(SHOP)
        where = f"{library.url}/specs/shop.json"
        person.services.register("s", where, base=server.url, auth_env="TOKEN")
        assert person.request("GET", "/items").success
        assert "Authorization" not in library.seen[0].headers
        assert server.seen[-1].headers["Authorization"] == "Bearer open-sesame-12"


def test_a_description_behind_a_login_is_read_with_the_credentials(tmp_path: Path) -> None:
    person = Person(tmp_path / "folder", KEY="open-sesame-12")
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server, APIServer() as other:
        person.services.register("s", server.url, header_env={"X-Key": "KEY"})
        assert server.seen[0].headers["X-Key"] == "open-sesame-12"
        other.routes["GET /openapi.json"] = json_answer(SHOP)
        server.routes["GET /openapi.json"] = redirect(f"{other.url}/openapi.json")
        assert "not followed" in person.services.refresh("s")
        assert other.seen == []
        server.routes |= {
            "GET /openapi.json": redirect("/moved.json", 308),
            "GET /moved.json": json_answer(SHOP),
        }
        assert "4 operations" in person.services.refresh("s")


def test_a_description_that_is_not_quite_valid_is_taken_with_a_warning(person: Person) -> None:
    document = described({"/x": {"get": {"operationId": "x"}}})
    with APIServer({"GET /openapi.json": json_answer(document)}) as server:
        said = person.services.register("s", server.url)
    assert "not quite valid: paths /x get: 'responses' is a required property" in said
    assert "api_s_x" in person.tools


@pytest.mark.parametrize(("number", "width"), [(64, 40), (1_500, 1)])
def test_a_description_in_any_script_is_kept_for_the_next_kernel(
    number: int, width: int, person: Person
) -> None:
    said = "目录" * 90
    fields = {f"{i}": {"type": "string", "description": said} for i in range(width)}
    media = {"application/json": {"schema": {"type": "object", "properties": fields}}}
    paths = {
        f"/目录{i}": {"post": operation(f"o{i}", summary=said, requestBody={"content": media})}
        for i in range(number)
    }
    with APIServer({"GET /openapi.json": json_answer(described(paths))}) as server:
        person.services.register("s", server.url)
        server.routes["POST /%E7%9B%AE%E5%BD%955"] = echo
        person.services = person.restarted()
        assert person.services.notices() == []
        assert person.request("POST", "/目录5", body={}).success


@pytest.mark.spec("A21", "A22")
def test_a_service_of_the_settings_is_there_once_it_was_looked_at(tmp_path: Path) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP), "GET /items": echo}) as server:
        config = MCPServerConfig(
            name="set",
            kind="openapi",
            url=server.url,
            token="inline-token-1",
            headers={"X-More": "more-of-it-22"},
            get_unasked=True,
        )
        person = Person(tmp_path / "folder", config)
        assert "refresh set" in person.services.notices()[0]
        assert server.seen == []
        person.services.refresh("set")
        person.services = person.restarted()
        result = person.call("api_set_listItems")
        assert server.seen[-1].headers["Authorization"] == "Bearer inline-token-1"
        assert server.seen[-1].headers["X-More"] == "more-of-it-22"
        assert "inline-token-1" not in result.output
        assert "in the settings" in person.services.listed()
        with pytest.raises(ConfigError, match="in the settings"):
            person.services.remove("set")
        with pytest.raises(ConfigError, match="in the settings already"):
            person.services.register("mine", server.url)
        kept = (tmp_path / "person/data/ipyagent/services.json").read_text()
        assert "inline-token-1" not in kept
        person.services.deactivate("set")
        assert person.services.tools() == []
        person.services.activate("set")
        person.configured[0] = config.model_copy(update={"url": f"{server.url}/other"})
        assert person.services.tools() == []  # another address is another service
        person.configured[0] = config.model_copy(update={"disabled": True})
        assert person.services.listed().startswith("no services")


def test_operations_that_an_older_version_kept_are_read(person: Person) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        person.services.register("s", server.url)
    (file,) = (person.folder.parent / "person/data/ipyagent/services").glob("*.json")
    lines = unpack(json.loads(file.read_text())["packed"])
    file.write_text(json.dumps({"operations": lines}))
    assert len(person.restarted().tools()) == 5
    file.write_text(json.dumps({"packed": "spoilt"}))
    assert person.restarted().tools() == []


def test_a_description_that_nobody_thought_of_is_told_of(person: Person) -> None:
    """A number in place of a name, so large that Python will not write it down."""
    text = "openapi: 3.0.0\npaths: {/a: {get: {operationId: 0x1" + "0" * 5_000 + "}}}"
    with APIServer({"GET /openapi.json": answer(text.encode())}) as server:
        said = person.services.register("s", server.url)
    assert "s: it cannot be read: Exceeds the limit" in said
    assert "registered without tools" in said


def test_a_spoilt_registry_is_told_of_and_ends_nothing(person: Person) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        person.services.register("s", server.url)
        file = person.folder.parent / "person/data/ipyagent/services.json"
        file.write_text(file.read_text().replace('"url"', '"lru"'))
        assert person.services.tools() == []
        file.write_text("{")
        assert person.services.tools() == []
        assert "services.json" in person.services.notices()[0]
        with pytest.raises(ConfigError, match="move it away"):
            person.services.register("s", server.url)
        file.unlink()
        person.services.register("s", server.url)
    assert "api_s_getItem" in person.tools


def test_two_kernels_that_register_at_once_both_succeed(person: Person) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        names = [f"s{i}" for i in range(6)]
        threads = [
            threading.Thread(
                target=person.restarted().register, args=(name, f"{server.url}/{name}/openapi.json")
            )
            for name in names
        ]
        server.routes |= {f"GET /{name}/openapi.json": json_answer(SHOP) for name in names}
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(person.services.listed().split("\n")) == 6


@pytest.mark.parametrize("name", ["", "1a", "a b", "ü", "a" * 31, "a.b", "../x"])
def test_a_services_name_is_one_that_tools_can_have(name: str, person: Person) -> None:
    with pytest.raises(ConfigError, match="no name for a service"):
        person.services.register(name, "http://h")


@pytest.mark.parametrize(
    "options",
    [
        {"auth_env": "sk-secret-key"},
        {"header_env": {"X-Key": "a secret"}},
        {"header_env": {"Host": "VAR"}},
        {"header_env": {"X: y\r\nZ": "VAR"}},
    ],
)
def test_a_secret_in_the_place_of_a_variables_name_is_refused(
    options: dict[str, Any], person: Person
) -> None:
    with pytest.raises(ConfigError) as caught:
        person.services.register("s", "http://127.0.0.1:1", **options)
    assert "secret-key" not in str(caught.value)
