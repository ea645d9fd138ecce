"""The tools of services, the command `%agent api`, and the addresses that are allowed."""

import asyncio
import ipaddress
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from api_lab import User

from harness import YES, Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.agent.session.session import Session
from ipyagent.config import Config
from ipyagent.errors import ConfigError, InvalidArgumentsError, MCPConnectionError
from ipyagent.magic import subcommands
from ipyagent.schema import DecidedBy, Decision, Notice, Outcome, Scope
from ipyagent.services import add_search
from ipyagent.services.openapi import transport
from ipyagent.services.openapi.transport import (
    AddressGuard,
    RefusedAddressError,
    is_metadata,
    is_public,
    parse_address,
    system_resolve,
)
from ipyagent.tools.base import Tool, Toolbox, Where, tool
from patience import PATIENCE
from servers.certificates import certificate, serving
from servers.openapi_server import (
    SHOP,
    APIServer,
    answer,
    described,
    json_answer,
    operation,
    parameter,
)


def registered(folder: Path, paths: dict[str, Any], **options: Any) -> User:
    user = User(folder)
    with APIServer({"GET /openapi.json": json_answer(described(paths))}) as server:
        user.services.register("s", server.url, **options)
    return user


@pytest.mark.spec("P12")
def test_names_are_valid_for_models_and_unique(tmp_path: Path) -> None:
    names = ["list items", "list.items", "list/items", "LIST_items", "x" * 200, "x" * 201, "ümläut",
             "日本語", "-", "__proto__", "a\x1b[31mred", "request", "same", "same"]  # fmt: skip
    paths = {f"/p{i}": {"get": operation(name)} for i, name in enumerate(names)}
    paths["/without/{id}"] = {"delete": operation()}
    user = registered(tmp_path / "one", paths)
    tools = list(user.tools)
    assert len(tools) == len(names) + 2
    assert len({each.lower() for each in tools}) == len(tools)
    assert all(re.fullmatch(r"api_[a-zA-Z0-9_-]{1,60}", each) for each in tools)
    assert [each for each in tools if not user.tools[each].hidden] == ["api_request"]
    assert "api_s_delete_without_id" in tools
    assert len(Toolbox(user.services.tools())) == len(tools)

    backwards = registered(tmp_path / "two", dict(reversed(paths.items())))
    assert {n: t.description for n, t in user.tools.items() if n != "api_request"} == {
        n: t.description for n, t in backwards.tools.items() if n != "api_request"
    }


def test_names_of_two_services_never_collide(tmp_path: Path) -> None:
    user = User(tmp_path / "folder")
    for name, id_ in (("a", "b_c"), ("a_b", "c")):
        document = described({"/x": {"get": operation(id_)}})
        with APIServer({"GET /openapi.json": json_answer(document)}) as server:
            user.services.register(name, server.url)
    named = [each.name for each in user.services.tools()]
    assert len(set(named)) == 3
    assert all(each == "api_request" or each.startswith("api_a_b_c_") for each in named)


def test_an_operation_that_is_not_asked_about_calls_no_other_one(tmp_path: Path) -> None:
    user = User(tmp_path / "folder")
    with (
        APIServer({"GET /openapi.json": json_answer(SHOP)}) as free,
        APIServer({"GET /openapi.json": json_answer(SHOP)}) as other,
    ):
        user.services.register("free", free.url, get_unasked=True)
        user.services.register("other", other.url)
        tool = user.tools["api_free_listItems"]
        assert not tool.sensitive
        request = {"service": "free", "method": "GET", "path": "/items"}
        assert tool.preview(**request).text == f"GET {free.url}/items"
        for change in ({"service": "other"}, {"method": "POST"}, {"path": "/items/7"}):
            given = {**request, "body": {"name": "x"}, **change}
            for check in (tool.validate, tool.preview, lambda **each: asyncio.run(tool(**each))):
                with pytest.raises(InvalidArgumentsError, match=r"an operation of|not a request"):
                    check(**given)
        assert other.targets() == ["GET /openapi.json"]


def test_all_calls_need_approval_unless_the_user_waived_it(tmp_path: Path) -> None:
    asked = registered(tmp_path / "one", SHOP["paths"])
    assert all(each.sensitive for each in asked.services.tools())
    unasked = registered(tmp_path / "two", SHOP["paths"], get_unasked=True)
    free = {name for name, each in unasked.tools.items() if not each.sensitive}
    assert free == {"api_s_listItems", "api_s_getItem"}
    for name, each in unasked.tools.items():
        assert each.can_reach_out(), name
        assert each.idempotent == (name in free)  # what only reads may be asked for again
        assert each.where is Where.LOOP
        assert each.source(service="s") == "the service s"


def offered(tools: list[Tool]) -> tuple[list[Tool], int]:
    """Return what a model is offered of these tools, and its size."""
    some = Toolbox(add_search(tools)).offered_tools()
    return [*some], sum(len(json.dumps(each.to_schema())) for each in some)


@pytest.mark.spec("P04")
def test_operations_are_listed_or_found_and_called_by_one_tool(tmp_path: Path) -> None:
    paths = {
        f"/things{i}/{{id}}": {
            "get": operation(f"get{i}", parameter("query", "q"), summary=f"Gets thing {i}. " * 20)
        }
        for i in range(65)
    }
    paths["/payments"] = {"post": operation("refundPayment", summary="Give money back")}
    user = registered(tmp_path / "one", paths)
    (find, request), size = offered(user.services.tools())
    assert (find.name, request.name) == ("find_tools", "api_request")
    assert size < 7_000
    assert "s: 66 operations; find_tools finds all, such as" in request.description
    assert "GET /things7/{id}" in request.description
    assert (find.sensitive, find.source()) == (False, "descriptions of tools")
    assert "66 of the service s" in find.description
    found = find(query="things12")
    assert found.startswith("api_s_get12: GET /things12/{id} [q (query)]")
    assert '{"path": {"type": "object", "properties": {"id": ' in found
    for words in ("refunds", "payment", "money back please"):
        assert find(query=words).startswith("api_s_refundPayment: POST /payments")
    assert find(query="xyzzy") == "no tool has one of these words"
    assert find(query="gets thing").count("\n\n") == 5
    with APIServer({"GET /things7/1": answer(b"fine")}) as server:
        user.services._registry.save(
            user.services._registry.get("s").model_copy(update={"base": f"{server.url}/"})
        )
        assert user.request("GET", "/things7/1").output == "fine"
    few = registered(
        tmp_path / "two", {"/payments": paths["/payments"], **dict([*paths.items()][:3])}
    )
    (find, request), _ = offered(few.services.tools())
    assert '{"path": {"type": "object", "properties": {"id": ' in request.description


def test_a_call_of_an_operation_is_asked_about_and_allowed_as_that_operation(
    tmp_path: Path,
) -> None:
    pages = {
        "GET /openapi.json": json_answer(SHOP),
        **{f"{line}": json_answer({}) for line in ("GET /items", "POST /items", "DELETE /items/7")},
    }
    lab = Lab(tmp_path)
    with APIServer(pages) as server:
        services = lab.environment.services_for_run(Config()).openapi
        services.register("s", server.url, get_unasked=True)
        item = {"name": "x"}
        calls = [
            call("api_request", service="s", method="GET", path="/items"),
            call("api_request", service="s", method="POST", path="/items", body=item),
            call("api_request", service="s", method="POST", path="/items", body=item),
            call("api_request", service="s", method="DELETE", path="/items/7"),
            call("api_s_addItem", service="s", method="DELETE", path="/items/7"),
        ]
        rules = [{"tool": "api_request", "arguments": {"method": "DELETE"}, "effect": "deny"}]
        run = lab.run(
            [*({"calls": [each]} for each in calls), "Done."],
            answer=Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope.SESSION),
            settings={"policy": {"rules": rules}},
        )
        names = ["listItems", "addItem", "addItem", "deleteItem", "addItem"]
        assert [each.call.name for each in run.executions] == [f"api_s_{each}" for each in names]
        assert [each.name for each in run.steps[0].message.tool_calls] == ["api_request"]
        assert [each.decided_by for each in run.executions][1:3] == ["button", "session"]
        assert [each.status for each in run.executions] == [
            "success", "success", "success", "denied", "denied",
        ]  # fmt: skip
        assert len(lab.watcher.asked) == 1
        assert server.targets()[1:] == ["GET /items", "POST /items", "POST /items"]


def test_a_services_own_text_is_escaped_visible_and_bounded(
    tmp_path: Path,
) -> None:
    evil = "\x1b[2J\u202eevil\U000e0041 " + "long " * 10_000
    paths = {"/x": {"get": operation("x", parameter("query", "q", description=evil), summary=evil)}}
    user = registered(tmp_path / "one", paths)
    (find, *_), _ = offered(user.services.tools())
    told = user.tools["api_request"].definition()
    text = told.to_dict() | {"found": find(query="x")}
    assert "\x1b" not in str(text)
    assert "\u202e" not in str(text)
    assert "⟨U+202E⟩evil" in told.description
    assert len(str(text)) < 4_000


def test_the_tools_stay_the_same_until_something_changes(tmp_path: Path) -> None:
    user = registered(tmp_path / "one", SHOP["paths"])
    before = user.services.tools()
    assert user.services.tools() is before
    user.services.deactivate("s")
    assert user.services.tools() == []


def test_importing_the_services_loads_no_heavy_library() -> None:
    code = (
        "import sys, ipyagent.magic.subcommands, ipyagent.services.openapi\n"
        "heavy = ('httpx', 'jsonschema', 'referencing')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("overrides", [False, True])
def test_a_cells_tool_with_the_name_of_a_services_tool_does_not_stop_the_run(
    tmp_path: Path, overrides: bool
) -> None:
    @tool(name="api_s_x", allow_override=overrides)
    def mine() -> str:
        """Return a word."""
        return "mine"

    lab = Lab(tmp_path, {"mine": mine})
    asked, notices = 0, list[str]()
    pages = {
        "GET /openapi.json": json_answer(described({"/x": {"get": operation("x")}})),
        "GET /x": json_answer("theirs"),
    }
    with APIServer(pages) as server:
        lab.environment.services_for_run(Config()).openapi.register("s", server.url)
        request = call("api_request", service="s", method="GET", path="/x")
        replies = [{"calls": [call("api_s_x") if overrides else request]}, "Done."]
        for _ in range(2):
            run = lab.run(replies, answer=YES)
            assert (run.outcome, run.error) == (Outcome.SUCCESS, None)
            assert ("mine" if overrides else "theirs") in run.results[0].output
            asked += len(lab.watcher.asked)
            notices += [each.text for each in lab.watcher.events if isinstance(each, Notice)]
    assert asked == 2, "what replaces a sensitive tool is asked about as that one was"
    assert sum("'api_s_x' is left out" in text for text in notices) == (0 if overrides else 1)


def test_a_services_tool_with_the_name_of_a_tool_of_the_program_is_left_out(
    tmp_path: Path,
) -> None:
    user = registered(tmp_path / "one", {"/x": {"get": operation("x")}})

    @tool(name="api_s_x")
    def own() -> str:
        """Return a word."""
        return "mine"

    box = Toolbox([own]).merge_services(user.services.tools())
    assert box.get("api_s_x") is own
    assert "api_request" in box
    assert box.notices == (
        "The tool 'api_s_x' of a service is left out, because another one has its name; rename "
        "the other one, or the service.",
    )


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "folder")


def type_command(user: User, rest: str) -> str:
    """Return the output of the command in a notebook with these services."""
    services = SimpleNamespace(openapi=user.services)
    book: Any = SimpleNamespace(services=services, sessions=SimpleNamespace(get=Session))
    return subcommands.api(book, rest)


@pytest.mark.spec("P11")
def test_a_service_is_registered_listed_refreshed_switched_and_removed(user: User) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        said = type_command(
            user,
            f"register shop {server.url}/docs --auth-env TOKEN --header-env api_key=KEY "
            "--header-env X-More=MORE --get-unasked",
        )
        assert "shop (A test): 4 operations" in said
        listed = type_command(user, "list")
        assert listed == type_command(user, "")
        for fact in ("shop", "active", server.url, "GET unasked", "TOKEN (not set)", "X-More from"):
            assert fact in listed
        assert "4 operations" in type_command(user, "refresh")
        assert "4 operations" in type_command(user, "refresh shop")
    assert "not active" in type_command(user, "deactivate shop")
    assert "inactive" in type_command(user, "list")
    assert "active" in type_command(user, "activate shop")
    assert "removed" in type_command(user, "remove shop")
    assert "no services" in type_command(user, "list")


def test_a_file_is_relative_to_the_notebooks_folder(user: User) -> None:
    (user.folder / "my shop.json").write_text(__import__("json").dumps(SHOP))
    said = type_command(user, "register shop 'my shop.json' --base http://127.0.0.1:1/v1")
    assert "4 operations at http://127.0.0.1:1/v1" in said


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("regster x", "there are: register, list"),
        ("register", "register NAME URL"),
        ("register shop", "register NAME URL"),
        ("register shop http://h more", "register NAME URL"),
        ("register shop http://h --header-env X", "HEADER=VARIABLE"),
        ("register shop http://h --wrong", "register NAME URL"),
        ("register shop ftp://h", "http or https"),
        ("register 'shop", "No closing quotation"),
        ("list x", "usage: %agent api list$"),
        ("refresh a b", r"\[NAME\]"),
        ("refresh nobody", "no service is named 'nobody'"),
        ("activate", r"usage: %agent api activate NAME \[--here\]$"),
        ("deactivate a b", r"usage: %agent api deactivate NAME"),
        ("remove nobody", "there are: none"),
    ],
)
def test_a_wrong_command_line_gets_its_usage(rest: str, why: str, user: User) -> None:
    with pytest.raises(ConfigError, match=why):
        type_command(user, rest)


MEANT = [
    ("localhost:8000", "http://localhost:8000"),
    ("example.org", "http://example.org"),
    ("example.org/api/", "http://example.org/api"),
    ("HTTP://Example.ORG:80/Api", "http://example.org/Api"),
    ("HTTPS://Example.org:443", "https://example.org"),
    ("https://example.org:8443/", "https://example.org:8443"),
    ("http://h/docs", "http://h"),
    ("http://h/docs/", "http://h"),
    ("http://h/docs#/default/get", "http://h"),
    ("http://h/v1/redoc?x=1", "http://h/v1"),
    ("h/docs", "http://h"),
    ("http://h/docs/more", "http://h/docs/more"),
    ("http://h/mydocs", "http://h/mydocs"),
    ("http://h///", "http://h"),
    ("http://h/a/../docs", "http://h"),
    ("http://h.:80/", "http://h"),
    ("http://[::1]:8000/docs", "http://[::1]:8000"),
    ("  http://h \n", "http://h"),
    ("127.1:80/redoc", "http://127.1"),
    ("http://h/openapi.json?version=2", "http://h/openapi.json?version=2"),
]


@pytest.mark.spec("P38")
def test_an_address_is_normalized() -> None:
    written = {text: transport.format_url(transport.parse_url(text)) for text, _ in MEANT}
    assert written == dict(MEANT)
    assert all(transport.parse_url(meant) == transport.parse_url(text) for text, meant in MEANT)


OTHER_SCHEMES = [
    "ftp://h", "file:///etc/passwd", "javascript:alert(1)", "mailto:a@b", "unix:/x", "ws://h",
    "gopher://h:70", "FILE:///x", "localhost:80a",
]  # fmt: skip
INVALID = [
    "", "http://", "//evil", "http:/h", "http://h:0", "http://h:99999", "http://h\r\nX: y",
    "http://u:p@h", "http://u@h", "http://h\\@evil", "http://１２７.0.0.1", "http://a b",
    "http://xn--/", "http://h/\ud800", "\ud800",
]  # fmt: skip


def url_refusal(written: str) -> str:
    """Return why an address is refused; "" if it is not."""
    try:
        transport.parse_url(written)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.spec("P38")
def test_another_scheme_is_refused_and_never_becomes_http() -> None:
    why = {each: url_refusal(each) for each in OTHER_SCHEMES}
    assert {
        each: text for each, text in why.items() if "reached by http or https" not in text
    } == {}


@pytest.mark.spec("P38")
def test_an_invalid_address_is_refused() -> None:
    assert [each for each in INVALID if not url_refusal(each)] == []


HOMES = [
    ("http://h/openapi.json", "http://h"),
    ("http://h/v1/swagger.json", "http://h/v1"),
    ("http://h/swagger/v1/swagger.json", "http://h"),
    ("http://h/api/openapi.json", "http://h"),
    ("http://h/x/other.yaml", "http://h/x/other.yaml"),
]


def test_well_known_descriptions_belong_to_the_service_at_the_parent_url() -> None:
    for document, home in HOMES:
        url, named = transport.parse_service(document)
        assert (transport.format_url(url), named) == (home, document)
    assert transport.parse_service("h/docs")[1] is None


NAMES = {
    "10-0-0-1.nip.example": ["10.0.0.1"],
    "localtest.example": ["127.0.0.1"],
    "both.example": ["93.184.215.14", "192.168.0.7"],
    "mapped.example": ["::ffff:10.1.2.3"],
    "public.example": ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "metadata.google.internal": ["8.8.8.8"],
    "translated.example": ["64:ff9b::5db8:d70e"],
    "nowhere.example": [],
}

PRIVATE = [
    "127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7f.1",
    "0x7f.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1", "00000177.0.0.1", "0", "0.0.0.0",
    "10.0.0.1", "0xa000001", "012.1", "172.16.0.1", "2886729729", "192.168.1.1", "0300.0250.1.1",
    "100.64.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "localhost", "LOCALHOST", "localtest.example.", "１２７.0.0.1", "127。0。0。1",
    "::1", "::", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe", "2606:4700::5efe:7f00:1", "fe80::1", "fc00::1",
    "fd12:3456::1", "fec0::1", "ff02::1", "2001:db8::1", "3fff::1",
    "::ffff:0:7f00:1", "::ffff:0:8.8.8.8", "::8.8.8.8", "4000::1", "5f00::1",
    "192.0.0.8", "192.0.0.9",
    "10-0-0-1.nip.example", "localtest.example", "both.example", "mapped.example",
]  # fmt: skip

METADATA = [
    "169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fd00:ec2::254",
    "::ffff:0:a9fe:a9fe", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    "metadata.google.internal", "Metadata.Google.Internal.",
]  # fmt: skip


async def resolve(host: str, port: int) -> list[str]:
    known = NAMES.get(host.lower().rstrip("."))
    return await system_resolve(host, port) if known is None else known


GUARD = AddressGuard(resolve=resolve)


async def refusal(guard: AddressGuard, host: str) -> str:
    """Return why nothing is sent to a host; "" if it is connected to."""
    try:
        await guard.addresses(host, 80)
    except MCPConnectionError as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def test_no_spelling_of_a_private_address_is_connected_to() -> None:
    why = {host: await refusal(GUARD, host) for host in PRIVATE}
    expected = re.compile("RefusedAddressError: .*not where you registered it")
    assert {host: text for host, text in why.items() if not expected.match(text)} == {}


async def test_a_clouds_metadata_service_is_refused_even_if_it_was_registered() -> None:
    everything = AddressGuard(
        frozenset(map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254"))), resolve
    )
    for guard in (GUARD, everything):
        why = {host: await refusal(guard, host) for host in METADATA}
        expected = re.compile("RefusedAddressError: .*credentials")
        assert {host: text for host, text in why.items() if not expected.match(text)} == {}


async def test_connections_go_to_the_checked_public_addresses() -> None:
    for host in ("public.example", "translated.example", "8.8.8.8", "2606:4700::1"):
        assert await GUARD.addresses(host, 443) == NAMES.get(host, [host])


async def test_only_the_registered_private_address_is_allowed() -> None:
    guard = AddressGuard(frozenset([ipaddress.ip_address("127.0.0.1")]), resolve)
    assert await guard.addresses("localtest.example", 80) == ["127.0.0.1"]
    assert await guard.addresses("::ffff:127.0.0.1", 80) == ["127.0.0.1"]
    for other in ("127.0.0.2", "10-0-0-1.nip.example", "both.example"):
        with pytest.raises(RefusedAddressError):
            await guard.addresses(other, 80)


async def test_an_unknown_host_is_reported() -> None:
    hosts = ("nowhere.example", "no such host", "\udcff", "a" * 300, "x..y", "")
    assert [host for host in hosts if not await refusal(GUARD, host)] == []


async def test_a_hanging_resolver_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def hang(*args: object, **more: object) -> list[object]:
        gate.wait(PATIENCE)
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await system_resolve("slow.example", 80)
    gate.set()


def test_embedded_addresses_are_found() -> None:
    assert parse_address("::ffff:1.2.3.4") == ipaddress.ip_address("1.2.3.4")
    assert parse_address("fe80::1%eth0") == ipaddress.ip_address("fe80::1")
    assert is_public(ipaddress.ip_address("64:ff9b::808:808"))
    assert not is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    assert not is_metadata(ipaddress.ip_address("8.8.8.8"))


def test_a_certificate_must_match_the_registered_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key = certificate(tmp_path, "right.example")
    user = User(tmp_path / "folder")
    user.names |= {host: ["127.0.0.1"] for host in ("right.example", "wrong.example")}
    routes = {"GET /openapi.json": json_answer(SHOP), "GET /items": json_answer([])}
    with APIServer(routes, tls=serving(pem, key)) as server:
        said = user.services.register("s", f"https://right.example:{server.port}")
        assert "certificate verify failed" in said  # nobody vouches for it
        assert server.seen == []
        trusting = ssl.create_default_context(cafile=str(pem))
        monkeypatch.setattr(transport, "_certificates", lambda: trusting)
        assert "4 operations" in user.services.refresh("s")
        assert user.request("GET", "/items").success
        said = user.services.register("w", f"https://wrong.example:{server.port}")
        assert "certificate verify failed" in said
        seen = len(server.seen)
        server.routes["GET /items"] = json_answer([])
        user.names["right.example"] = ["127.0.0.1"]
        monkeypatch.setattr(transport, "_certificates", ssl.create_default_context)
        with pytest.raises(MCPConnectionError, match="certificate verify failed"):
            user.request("GET", "/items")
        assert len(server.seen) == seen
