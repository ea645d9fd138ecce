"""Calls go only to described operations, only to the registered address, within limits."""

import asyncio
import base64
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from api_lab import User, run
from PIL import Image

from harness import NO, YES, Lab, call
from ipyagent.errors import AgentError, InvalidArgumentsError, MCPConnectionError, MCPToolCallError
from ipyagent.schema import ToolStatus
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
def server() -> Iterator[APIServer]:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        yield server


@pytest.fixture
def canary() -> Iterator[APIServer]:
    """Fail: no request may come here."""
    with APIServer() as server:
        yield server
        assert server.seen == []


@pytest.fixture
def user(tmp_path: Path, server: APIServer) -> User:
    """A user with the shop registered as `s`."""
    user = User(tmp_path / "folder", TOKEN="open-sesame-12")
    user.services.register("s", server.url)
    server.seen.clear()
    return user


def serve(user: User, server: APIServer, paths: dict[str, Any], **more: Any) -> None:
    """Let the server return another description."""
    server.routes["GET /openapi.json"] = json_answer(described(paths, **more))
    user.services.refresh("s")
    server.seen.clear()


def wire(server: APIServer) -> dict[str, Any]:
    """Return the last request, with its body as JSON if possible."""
    seen = server.seen[-1]
    return {"line": f"{seen.method} {seen.target}", "body": seen.body, "headers": seen.headers}


@pytest.mark.spec("P04", "P12")
def test_an_operation_is_sent_as_it_was_shown(user: User, server: APIServer) -> None:
    server.routes |= {"POST /items": echo, "GET /items/7": json_answer({"name": "é"})}
    tool = user.tools["api_s_addItem"]
    arguments = user.place("api_s_addItem", body={"name": 'é\n"x"'})
    shown = tool.preview(**arguments)
    run(tool, arguments)
    head, _, body = shown.text.partition("\n\n")
    assert (shown.kind, shown.language) == ("code", "http")
    assert head.split("\n")[0] == f"POST {server.url}/items"
    assert wire(server)["body"].decode() == body == '{"name": "é\\n\\"x\\""}'
    assert wire(server)["headers"]["Content-Type"] == "application/json"
    assert user.call("api_s_getItem", id=7).output == '{\n "name": "é"\n}'
    for wrong in ({"body": {"name": 1}}, {"body": '{"name": 1}'}, {"body": {}}, {}):
        with pytest.raises(InvalidArgumentsError, match=r"name|body"):
            user.call("api_s_addItem", **wrong)
    with pytest.raises(InvalidArgumentsError, match=r"query.limit: 'x' is not"):
        user.request("GET", "/items", query={"limit": "x"})
    for other in ({"method": "DELETE"}, {"path": "/items/7"}):
        with pytest.raises(InvalidArgumentsError, match=r"not a request of POST /items|has no"):
            run(tool, {**arguments, **other})
    assert len(server.seen) == 2


@pytest.mark.spec("P12", "P13")
def test_the_general_tool_takes_five_arguments_only(user: User, server: APIServer) -> None:
    server.routes |= {f"{method} /items": echo for method in ("GET", "POST")}
    server.routes["DELETE /items/a%20b"] = echo
    good: list[dict[str, Any]] = [
        {"method": "GET", "path": "/items"},
        {"method": "GET", "path": "/items", "query": {"limit": 3, "q": ["a", "b&c"], "n": None}},
        {"method": "POST", "path": "/items", "body": {"name": "x"}},
        {"method": "POST", "path": "/items", "body": '{"name":  "x"}'},
        {"method": "DELETE", "path": "/items/a%20b"},
    ]
    for arguments in good:
        assert user.request(**arguments).success
    assert server.targets()[1] == "GET /items?limit=3&q=a&q=b%26c"
    assert [each.body for each in server.seen[2:4]] == [b'{"name": "x"}', b'{"name":  "x"}']
    bad: list[dict[str, Any]] = [
        {"method": "GET", "path": "/items", "headers": {}},
        {"method": "get", "path": "/items"},
        {"method": "HEAD", "path": "/items"},
        {"method": "GET"},
        {"path": "/items"},
        {"method": "GET", "path": 7},
        {"method": "GET", "path": "/items", "query": "limit=3"},
        {"method": "POST", "path": "/items", "body": None},
        {"method": "POST", "path": "/items", "body": [1]},
        {"method": "POST", "path": "/items", "body": 7},
        {"method": "GET", "path": "/items", "service": "other"},
    ]
    for arguments in bad:
        with pytest.raises(InvalidArgumentsError):
            user.call("api_request", **{"service": "s", **arguments})
    assert len(server.seen) == len(good)


OUTSIDE = [
    "items", "", "//items", "/items//7", "http://evil.example/items", "//evil.example/items",
    "/items/../openapi.json", "/items/..", "/items/.", "/./items", "/items/%2e%2e", "/items/%2E%2E",
    "/items/.%2e", "/items/%252e%252e", "/items/%25252e%25252e", "/items/..%2f..%2fadmin",
    "/items/%2e%2e%2fadmin", "/items/..%5cadmin", "/items/..\\admin", "/items/..;", "/items/..;x=1",
    "/items/．．", "/items/%ef%bc%8e%ef%bc%8e", "/items/..%00", "/items/7?x=1", "/items/7#x",
    "/items/7\r\nX-Evil: 1", "/items/7%0d%0aX-Evil:%201", "/items/7 HTTP/1.1", "//u@evil/items",
    "/items/\x00", "/items/%00", "/items/%ff", "@evil.example/items", "/@evil.example/items",
    "\\\\evil.example\\items", "/items/7/delete", "/openapi.json", "/Items", "/items/", "/items/7/",
    "/items/{id}/..", "?x", "/items/" + "x" * 5_000, "javascript:alert(1)", "/%69tems/../x",
]  # fmt: skip


@pytest.mark.spec("P04", "P33", "D29")
def test_operations_outside_the_description_are_never_called(user: User, server: APIServer) -> None:
    called = []
    for path in OUTSIDE:
        for method in ("GET", "DELETE"):
            try:
                user.request(method, path)
            except InvalidArgumentsError:
                continue
            called.append((method, path))
    assert called == []
    assert server.seen == []


@pytest.mark.spec("P33", "D29")
def test_templates_are_matched_by_segment_and_the_closest_wins(
    user: User, server: APIServer
) -> None:
    paths = {
        "/a/{x}": {"get": operation("any")},
        "/a/me": {"get": operation("me"), "delete": operation("not_me")},
        "/a/{x}/b": {"get": operation("below")},
        "/f/{name}.json": {"get": operation("file")},
        "/f/{a}-{b}": {"get": operation("pair")},
        "/users/@me": {"get": operation("self")},
        "/": {"get": operation("root")},
    }
    serve(user, server, paths)
    for path in ("/a/me", "/a/7", "/a/7/b", "/f/x.json", "/f/a-b", "/users/@me", "/", "/a/a%2Fb"):
        server.routes[f"GET {path}"] = answer(b"fine")
        assert user.request("GET", path).output == "fine", path
    assert user.request("GET", "/%61/me").output == "fine"  # one way of writing it is sent
    assert server.targets()[-1] == "GET /a/me"
    server.routes["GET /a/a%40b.com"] = answer(b"fine")
    for path in ("/a/a@b.com", "/a/a%40b.com"):
        assert user.request("GET", path).output == "fine"
        assert server.targets()[-1] == "GET /a/a%40b.com"
    for path in ("/f/x.xml", "/f/.json", "/f/-", "/a", "/a/", "/users/me", "/f/a/b.json"):
        with pytest.raises(InvalidArgumentsError):
            user.request("GET", path)
    with pytest.raises(InvalidArgumentsError, match="GET /a/me"):
        user.request("POST", "/a/me")


@pytest.mark.spec("P33")
def test_a_value_in_a_path_is_encoded_once_and_stays_in_its_segment(
    user: User, server: APIServer
) -> None:
    serve(user, server, {"/a/{x}/end": {"get": operation("a", parameter("path", "x"))}})
    for value, sent in {
        "a/b": "a%2Fb",
        "a%2Fb": "a%252Fb",
        "a b": "a%20b",
        "ü?&#@": "%C3%BC%3F&%23%40",
        "http://x.org/y": "http:%2F%2Fx.org%2Fy",
        "...": "...",
    }.items():
        server.routes[f"GET /a/{sent}/end"] = answer(b"fine")
        assert user.call("api_s_a", x=value).output == "fine", value
    seen = len(server.seen)
    for value in ("", ".", "..", "../x", "a/../b", "..\\x", "%2e%2e", "%252e%252e", "．．", "..;x",
                  " .. ", "x\r\ny", "\x00", "\ud800", "a%2f..%2fb"):  # fmt: skip
        with pytest.raises(InvalidArgumentsError):
            user.call("api_s_a", x=value)
    assert len(server.seen) == seen


def test_parameters_are_encoded_as_described(user: User, server: APIServer) -> None:
    many = {"type": "array", "items": {"type": "string"}}
    thing = {"type": "object"}
    listed = [
        parameter("query", "plain"),
        parameter("query", "flag", type="boolean"),
        parameter("query", "each", **many),
        parameter("query", "commas", explode=False, **many),
        parameter("query", "deep", style="deepObject", **thing),
        parameter("query", "expand", style="deepObject", **many),
        parameter("query", "loose", **thing),
        parameter("header", "X-Tags", **many),
    ]
    path = parameter("path", "ids", **many)
    serve(user, server, {"/a/{ids}": {"get": operation("a", path, *listed)}})
    server.routes["GET /a/1,2"] = echo
    server.routes["GET /a/1"] = echo
    user.call(
        "api_s_a",
        **{
            "ids": ["1", "2"], "plain": "a&b=c", "flag": True, "each": ["x", "y"],
            "commas": ["x", "y"],
            "deep": {"k": 1, "in": {"a": [2, {"b": None}]}},
            "expand": ["x", "y"], "loose": {"m": "v"},
            "X-Tags": ["t", "u"],
        },
    )  # fmt: skip
    target, headers = server.seen[-1].target, server.seen[-1].headers
    assert target.partition("?")[2].split("&") == [
        "plain=a%26b%3Dc", "flag=true", "each=x", "each=y", "commas=x,y",
        "deep%5Bk%5D=1", "deep%5Bin%5D%5Ba%5D%5B0%5D=2", "deep%5Bin%5D%5Ba%5D%5B1%5D%5Bb%5D=",
        "expand%5B0%5D=x", "expand%5B1%5D=y", "m=v",
    ]  # fmt: skip
    assert headers["X-Tags"] == "t,u"
    user.call("api_s_a", ids=["1"], **{"X-Tags": ["é"]})
    assert server.seen[-1].headers["X-Tags"] == "é"
    for odd in ({"plain": "\ud800"}, {"loose": {"\ud800": 1}}):
        with pytest.raises(InvalidArgumentsError, match="half of a character"):
            user.call("api_s_a", ids=["1"], **odd)
    for value in ("a\r\nX-Evil: 1", "ü€"):
        with pytest.raises(InvalidArgumentsError):
            user.call("api_s_a", ids=["1"], **{"X-Tags": [value]})


def test_fields_of_a_form_are_encoded_as_described(user: User, server: APIServer) -> None:
    deep = {"style": "deepObject", "explode": True}
    content = {
        "schema": {"type": "object"},
        "encoding": {"metadata": deep, "items": deep, "expand": deep, "odd": 7},
    }
    body = {"requestBody": {"content": {"application/x-www-form-urlencoded": content}}}
    serve(user, server, {"/c": {"post": operation("c", **body)}})
    server.routes["POST /c"] = echo
    fields = {
        "metadata": {"k": "v"}, "items": [{"price": "p"}, {"price": "q", "n": 2}],
        "expand": ["a"], "email": "a@b", "tags": ["x", "y"],
    }  # fmt: skip
    wanted = [
        ("metadata[k]", "v"), ("items[0][price]", "p"), ("items[1][price]", "q"),
        ("items[1][n]", "2"), ("expand[0]", "a"), ("email", "a@b"), ("tags", "x"), ("tags", "y"),
    ]  # fmt: skip
    user.call("api_s_c", body=fields)
    assert parse_qsl(wire(server)["body"].decode()) == wanted
    user.services = user.restart()
    user.request("POST", "/c", body=fields)
    assert parse_qsl(wire(server)["body"].decode()) == wanted
    with pytest.raises(InvalidArgumentsError, match="half of a character"):
        user.call("api_s_c", body={"email": "\ud800"})


@pytest.mark.spec("P34")
def test_any_status_but_success_is_a_failure_at_once(user: User, server: APIServer) -> None:
    for status in (400, 401, 404, 409, 422, 429, 500, 503):
        server.routes["GET /items"] = answer(b"because " * 1_000, status)
        server.seen.clear()
        result = user.request("GET", "/items")
        assert not result.success, status
        assert result.error.startswith(f"GET /items: {status} ")
        assert "because" in result.error
        assert len(result.error) < 2_000
        assert server.targets() == ["GET /items"]


@pytest.mark.spec("P34")
@pytest.mark.parametrize("trap", [silence, drop, pytest.param(dribble, marks=pytest.mark.slow)])
def test_a_silent_service_is_asked_once_within_its_time_limit(
    trap: Any, user: User, server: APIServer
) -> None:
    quick(user, execute_timeout=2.0)
    server.routes |= {"GET /items": trap, "POST /items": trap}
    with pytest.raises(MCPToolCallError, match=r"^s: "):
        user.request("GET", "/items")
    with pytest.raises(MCPToolCallError, match="It is not known whether it was carried out"):
        user.request("POST", "/items", body={"name": "x"})
    assert server.targets() == ["GET /items", "POST /items"]


def quick(user: User, **times: float) -> None:
    """Shorten the time limits of the service."""
    registry = user.services._registry
    registry.save(registry.get("s").model_copy(update=times))


@pytest.mark.parametrize("trap", [endless, bomb])
def test_an_endless_answer_is_truncated(trap: Any, user: User, server: APIServer) -> None:
    server.routes["GET /items"] = trap
    result = user.request("GET", "/items")
    assert "cut after 5,000,000 bytes" in result.output


def test_an_unreachable_service_is_reported(user: User, server: APIServer) -> None:
    server._server.shutdown()  # else its thread may accept once more
    server._server.server_close()
    with pytest.raises(MCPConnectionError, match="s: it cannot be reached"):
        user.request("GET", "/items")


@pytest.mark.spec("P33", "P34")
def test_a_redirect_is_told_and_not_followed(
    user: User, server: APIServer, canary: APIServer
) -> None:
    for where in ("/items/7", f"{canary.url}/items/7", "http://169.254.169.254/", "http://["):
        for status in (302, 303, 308):
            server.routes |= dict.fromkeys(("GET /items", "POST /items"), redirect(where, status))
            server.seen.clear()
            for method in ("GET", "POST"):
                body = {"body": {"name": "x"}} if method == "POST" else {}
                result = user.request(method, "/items", **body)
                assert not result.success
                assert f": {status} " in str(result.error)
                assert f"\nLocation: {where}" in str(result.error)
            assert server.targets() == ["GET /items", "POST /items"]


@pytest.mark.spec("P33")
def test_a_name_that_resolves_differently_later_is_refused(
    tmp_path: Path, canary: APIServer
) -> None:
    """DNS rebinding: public when it was registered, this machine when it is called."""
    import httpx

    user = User(tmp_path / "folder")
    host = "rebound.example"
    user.names[host] = ["93.184.215.14"]
    document = tmp_path / "folder" / "shop.json"
    document.write_text(json.dumps(SHOP))
    user.services.register("s", "shop.json", base=f"http://{host}:{canary.port}")
    for later in ("127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"):
        user.names[host] = [later]
        with pytest.raises(MCPConnectionError, match="nothing was sent"):
            user.request("GET", "/items")
    user.names[host] = ["93.184.215.14", "127.0.0.1"]
    with pytest.raises(MCPConnectionError, match="nothing was sent"):
        user.request("GET", "/items")
    with APIServer({"GET /items": answer(b"reached")}) as naive:  # by its name, one gets there
        reply = httpx.get(f"{naive.url}/items", headers={"Host": host}, trust_env=False)
        assert reply.text == "reached"


def test_the_connection_goes_to_the_checked_address(tmp_path: Path, server: APIServer) -> None:
    user = User(tmp_path / "folder")
    user.names["shop.example"] = ["127.0.0.1"]
    user.services.register("s", f"http://shop.example:{server.port}")
    answers = iter([["127.0.0.1"]])  # a second question would have no answer

    async def once(host: str, port: int) -> list[str]:
        return next(answers)

    user.services._resolve = once
    server.routes["GET /items"] = echo
    result = user.request("GET", "/items")
    assert json.loads(result.output)["headers"]["Host"] == f"shop.example:{server.port}"


def test_the_environments_proxies_are_not_used(
    user: User, server: APIServer, canary: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, canary.url)
    server.routes["GET /items"] = answer(b"direct")
    assert user.request("GET", "/items").output == "direct"


def test_no_argument_takes_the_place_of_a_secret(tmp_path: Path, server: APIServer) -> None:
    user = User(tmp_path / "folder")
    user.environ["KEY"] = "key-of-keys-34"
    user.services.register("s", server.url, header_env={"X-Key": "KEY"})
    serve(user, server, {"/items": {"get": operation("a", parameter("header", "X-KEY"))}})
    server.routes["GET /items"] = echo
    user.call("api_s_a", **{"X-KEY": "of the model"})
    sent = {name: value for name, value in server.seen[-1].headers.items() if "key" in name.lower()}
    assert sent == {"X-Key": "key-of-keys-34"}


@pytest.mark.spec("A21", "P04")
def test_secrets_are_read_from_the_environment_at_the_call_and_never_shown(
    tmp_path: Path, server: APIServer
) -> None:
    user = User(tmp_path / "folder")
    user.services.register(
        "s", server.url, auth_env="TOKEN", header_env={"X-Key": "KEY"}, get_unasked=True
    )
    server.routes["GET /items"] = echo
    with pytest.raises(MCPConnectionError, match="TOKEN is not set"):
        user.request("GET", "/items")
    assert server.seen[1:] == []
    user.environ |= {"TOKEN": "open-sesame-12", "KEY": "key-of-keys-34"}
    tool = user.tools["api_s_listItems"]
    listing = user.place("api_s_listItems")
    shown = tool.preview(**listing).text
    assert "Authorization: Bearer (the value of TOKEN)" in shown
    assert "X-Key: (the value of KEY)" in shown
    result = run(tool, listing)
    assert server.seen[-1].headers["Authorization"] == "Bearer open-sesame-12"
    assert server.seen[-1].headers["X-Key"] == "key-of-keys-34"
    for secret in user.environ.values():
        assert secret not in shown + result.output + repr(tool) + user.services.describe_services()
    user.environ["TOKEN"] = "clé-12345678"
    assert "clé" not in run(tool, listing).output
    assert server.seen[-1].headers["Authorization"] == "Bearer clé-12345678"
    user.environ["TOKEN"] = "two\nlines-secret"
    with pytest.raises(MCPConnectionError, match="Authorization is not valid") as caught:
        user.request("GET", "/items")
    assert "lines-secret" not in str(caught.value)


@pytest.mark.spec("P32")
def test_a_service_that_changed_after_its_tools_were_made_is_not_called(
    user: User, server: APIServer
) -> None:
    server.routes |= {"GET /items": answer(b"fine")}
    tools = user.tools

    def refused(why: str) -> None:
        arguments = {"service": "s", "method": "GET", "path": "/items"}
        for name in ("api_s_listItems", "api_request"):
            server.seen.clear()
            with pytest.raises(AgentError, match=why):
                asyncio.run(tools[name](**arguments))
            show = tools[name].preview
            assert show is not None
            with pytest.raises(AgentError, match=why):
                show(**arguments)
            assert server.seen == []

    other = user.restart()  # another kernel, or a cell meanwhile
    other.deactivate("s")
    refused("not active")
    other.activate("s")
    again = tools["api_request"](service="s", method="GET", path="/items")
    assert asyncio.run(again).output == "fine"
    paths = {"/items": {"post": operation("listItems")}}
    server.routes["GET /openapi.json"] = json_answer(described(paths))
    other.refresh("s")
    refused("was changed")
    other.remove("s")
    refused("no service is named 's'")


def test_answers_become_text_or_images(user: User, server: APIServer) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(buffer, "PNG")
    told = {
        "text": (answer("grün".encode("latin-1"), kind="text/plain; charset=ISO-8859-1"), "grün"),
        "odd charset": (answer(b"x", kind="text/plain; charset=zlib_codec"), "x"),
        "json": (json_answer([1]), "[\n 1\n]"),
        "problem": (answer(b'{"a":1}', kind="application/problem+json"), '{\n "a": 1\n}'),
        "broken json": (answer(b'{"a', kind="application/json"), '{"a'),
        "deep json": (answer(b"[" * 9_999, kind="application/json"), "[" * 9_999),
        "wide json": (answer(b"[" * 900 + b"1," * 99_999, kind="application/json"), None),
        "html": (answer(b"<b>hi</b>", kind="text/html"), "<b>hi</b>"),
        "no type": (answer(b"plain", kind=""), "plain"),
        "empty": (answer(b"", 204), "204 No Content"),
        "binary": (answer(b"\0" * 12_345, kind="application/zip"), None),
        "Polish": (
            answer("Łódź".encode("iso-8859-2"), kind="text/plain; charset=ISO-8859-2"),
            "Łódź",
        ),
        "Japanese": (
            answer("東京".encode("shift_jis"), kind="text/csv; charset=Shift_JIS"),
            "東京",
        ),
        "unnamed": (answer(b"a,b\n1,2\n", kind="application/octet-stream"), "a,b\n1,2\n"),
        "lines": (
            answer(b'{"n": 1}\n{"n": 2}\n', kind="application/jsonl"),
            '{"n": 1}\n{"n": 2}\n',
        ),
        "gzip": (answer(gzip.compress(b"small"), Content_Encoding="gzip"), "small"),
    }
    for name, (give, text) in told.items():
        server.routes["GET /items"] = give
        output = user.request("GET", "/items").output
        assert output == text or text is None, name
        assert len(output) < 1_200_000
    server.routes["GET /items"] = told["binary"][0]
    assert "12,345 bytes of application/zip" in user.request("GET", "/items").output
    server.routes["GET /items"] = answer(buffer.getvalue(), kind="image/png")
    image = user.request("GET", "/items").images[0]
    assert base64.b64decode(image.data) == buffer.getvalue()
    server.routes["GET /items"] = answer(b"not one", kind="image/png")
    assert "7 bytes of image/png" in user.request("GET", "/items").output
    server.routes["GET /items"] = answer(b"x", Content_Encoding="br")
    with pytest.raises(AgentError, match="not requested"):
        user.request("GET", "/items")


@pytest.mark.spec("P14", "P13", "P32")
def test_a_models_calls_are_checked_shown_approved_and_sent(
    user: User, server: APIServer, tmp_path: Path
) -> None:
    server.routes |= {"POST /items": echo, "GET /items": echo, "DELETE /items/7": echo}
    lab = Lab(tmp_path / "folder")
    text = json.dumps({"service": "s", "method": "POST", "path": "/items", "body": {"name": "x"}})
    calls = [
        {"name": "api_request", "arguments": text},
        {"name": "api_request", "arguments": text[:-1]},
        call("api_request", service="s", method="GET", path="/items", invented=True),
        user.calls("api_s_addItem", body={"name": 7}),
        user.calls("api_s_addItem", body={"name": "y"}),
    ]
    replies = [*({"calls": [each]} for each in calls), "Done."]
    run_of = lab.run(replies, tools=user.services.tools(), answer=YES)
    statuses = [each.status for each in run_of.executions]
    failed, success = ToolStatus.FAILED, ToolStatus.SUCCESS
    assert statuses == [success, failed, failed, failed, success]
    assert len(lab.watcher.asked) == 2
    assert [each.body for each in server.seen] == [b'{"name": "x"}', b'{"name": "y"}']
    deletion = [{"calls": [user.calls("api_s_deleteItem", id=7)]}, "Done."]
    denied = lab.run(deletion, tools=user.services.tools(), answer=NO)
    assert denied.executions[0].status is ToolStatus.DENIED
    assert len(server.seen) == 2
