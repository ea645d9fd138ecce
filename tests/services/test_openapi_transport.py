"""Addresses as users write them: none of a private place passes, and certificates are checked."""

import asyncio
import ipaddress
import re
import socket
import ssl
import threading
from pathlib import Path

import pytest
from api_lab import User

from ipyagent.errors import ConfigError, MCPConnectionError
from ipyagent.services.openapi import transport
from ipyagent.services.openapi.transport import (
    AddressGuard,
    RefusedAddressError,
    is_metadata,
    is_public,
    parse_address,
    system_resolve,
)
from patience import PATIENCE
from servers.certificates import certificate, serving
from servers.openapi_server import SHOP, APIServer, json_answer

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
