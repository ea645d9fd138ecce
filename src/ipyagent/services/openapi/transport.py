"""Addresses as users write them, and HTTP with a service, limited in destination, time and size.

A name is resolved once, every resulting address is checked, and the connection is made to a checked
address. So a name that resolves differently a moment later, as in DNS rebinding, gains nothing.

Public addresses are allowed, and those that the user registered.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address

import httpx

from ipyagent.errors import ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.plaintext import visible

WELL_KNOWN = (
    "/openapi.json",  # FastAPI, Litestar, …
    "/swagger.json",  # Flask-RESTX, go-swagger
    "/openapi.yaml",
    "/v3/api-docs",  # Spring
    "/swagger/v1/swagger.json",  # ASP.NET
    "/api/openapi.json",  # Django Ninja
)
"""Paths where a description is looked for, in this order."""

_DOCUMENT = re.compile(r"\.(json|ya?ml)$", re.IGNORECASE)
_PAGES = re.compile(r"/(docs|redoc)$", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!\d+(/|$))", re.IGNORECASE)


def parse_url(text: str) -> httpx.URL:
    """Return the user's address as a URL without its trailing slash; raises ConfigError.

    http:// is added only if there is no scheme. The pages `/docs` and `/redoc` are cut off.
    """
    text = text.strip()
    if not _SCHEME.match(text):
        text = f"http://{text}"
    try:
        url = httpx.URL(text)
        host = url.host.rstrip(".")
    except (httpx.InvalidURL, ValueError) as error:  # ValueError: lone surrogates, IDNA
        raise ConfigError(f"{visible(text)} is not an address: {error}") from None
    if url.userinfo or "\\" in text:
        raise ConfigError(
            "an address must not hold a name or password; register the service with "
            "--auth-env VARIABLE or --header-env HEADER=VARIABLE"
        )
    if url.scheme not in ("http", "https"):
        raise ConfigError(
            f"{visible(text)}: services are reached by http or https, not by {visible(url.scheme)}"
        )
    if not 0 < len(host) < 254 or "%" in host or not 0 < origin(url)[2] < 65_536:
        raise ConfigError(f"{visible(text)} is not an address such as https://example.org/api")
    plain = httpx.URL(
        str(url.copy_with(host=host, fragment=None))
    )  # drops the default port of the scheme only
    if is_document(plain):
        return plain
    return plain.copy_with(raw_path=_PAGES.sub("", path_of(plain)).rstrip("/").encode() or b"/")


def path_of(url: httpx.URL) -> str:
    """Return the path as it is sent, without a slash at its end."""
    return url.raw_path.partition(b"?")[0].decode("ascii").rstrip("/")


def is_document(url: httpx.URL) -> bool:
    """Return whether it is the address of a description itself."""
    return bool(_DOCUMENT.search(path_of(url)))


def parse_service(text: str) -> tuple[httpx.URL, str | None]:
    """Return the service's own URL, and the address of its description if `text` is one.

    A service has the same URL for all its well-known descriptions.
    """
    url = parse_url(text)
    if not is_document(url):
        return url, None
    path = path_of(url)
    known = max((each for each in WELL_KNOWN if path.endswith(each)), key=len, default="")
    own = url.copy_with(raw_path=path.removesuffix(known).encode() or b"/") if known else url
    return own, str(url)


def join_path(url: httpx.URL, path: str) -> httpx.URL:
    """Return the URL of a path, already encoded, under a service's own."""
    return url.copy_with(raw_path=(path_of(url) + path).encode("ascii"))


def format_url(url: httpx.URL | str) -> str:
    """Return the URL as users write it: without a trailing slash."""
    return visible(str(url)).removesuffix("/")


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Return scheme, host and port, for which credentials are meant."""
    usual = 443 if url.scheme == "https" else 80
    return url.scheme, url.host.rstrip("."), usual if url.port is None else url.port


Address = IPv4Address | IPv6Address

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host, as text; raises OSError."""

_METADATA = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",  # AWS, Azure, Google, …: IPv4's link-local range as a whole
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure's host
        "192.0.0.192/32",  # Oracle
        "fd00:ec2::254/128",  # AWS
        "fd20:ce::254/128",  # Google
    )
)
"""Networks where clouds hand out credentials to any request from the machine."""

_METADATA_NAMES = {"metadata.google.internal", "metadata.goog", "metadata"}

_NOT_PUBLIC = tuple(ipaddress.ip_network(network) for network in ("192.0.0.0/24", "3fff::/20"))
"""Local or reserved networks that Python's `is_global` misses."""

_UNICAST = ipaddress.ip_network("2000::/3")
"""The assigned range of IPv6; everything else is local, reserved or a translation."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_TRANSLATED = ipaddress.ip_network("::ffff:0:0:0/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


class RefusedAddressError(MCPConnectionError):
    """Raised for a host to which nothing is sent."""


def parse_address(text: str) -> Address:
    """Return an address in its plain form: `::ffff:127.0.0.1` is 127.0.0.1; raises ValueError."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def embedded_addresses(address: Address) -> list[Address]:
    """Return the address and the IPv4 addresses inside it, as in tunnels and translators."""
    if isinstance(address, IPv4Address):
        return [address]
    embedded: list[Address | None] = [address, address.ipv4_mapped, address.sixtofour]
    embedded += address.teredo or ()
    low, middle = int(address) & 0xFFFF_FFFF, int(address) >> 32 & 0xFFFF_FFFF
    holds_ipv4 = address in _NAT64 or address in _TRANSLATED or middle in _ISATAP
    if holds_ipv4 or (address in _COMPATIBLE and low > 1):
        embedded.append(IPv4Address(low))
    return [each for each in embedded if each is not None]


def is_public(address: Address) -> bool:
    """Return whether the address, and every address inside it, is on the public Internet."""
    return all(
        each.is_global
        and not each.is_multicast
        and (each.version == 4 or each in _UNICAST or each in _NAT64)
        and not any(each in network for network in _NOT_PUBLIC if network.version == each.version)
        for each in embedded_addresses(address)
    )


def is_metadata(address: Address) -> bool:
    """Return whether the address leads to a cloud's credentials service."""
    return any(
        each in network
        for each in embedded_addresses(address)
        for network in _METADATA
        if network.version == each.version
    )


async def system_resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver; raises OSError.

    It runs in a thread of its own: without a network a resolver may take half a minute, and the
    thread pool of an event loop would delay the end of the loop.
    """
    found: Future[list[str]] = Future()
    found.set_running_or_notify_cancel()  # the thread may set it even if nobody waits any more

    def look_up() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.set_result(list(dict.fromkeys(str(info[4][0]) for info in infos)))
        except UnicodeError:
            found.set_exception(socket.gaierror(f"{visible(host)} is not a valid host name"))
        except OSError as error:
            found.set_exception(error)

    threading.Thread(target=look_up, name="ipyagent-resolver", daemon=True).start()
    return await asyncio.wrap_future(found)


@dataclass(frozen=True)
class AddressGuard:
    """Decides where a connection may go. `known` are private addresses that the user allowed."""

    known: frozenset[Address] = frozenset()
    resolve: Resolve = system_resolve

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses to connect to; raises RefusedAddressError if one is not allowed."""
        resolved = await self.resolve_host(host, port)
        for address in resolved:
            if address not in self.known and not is_public(address):
                raise RefusedAddressError(
                    f"{visible(host)} is at {address}, which is on this machine or in its network, "
                    "and not where you registered it; nothing was sent. If it was moved on "
                    "purpose, remove it and register it again"
                )
        return [str(address) for address in resolved]

    async def resolve_host(self, host: str, port: int) -> list[Address]:
        """Return the host's addresses of any kind, except clouds' credentials services."""
        try:
            addresses = [parse_address(each) for each in await self.resolve(host, port)]
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise MCPConnectionError(f"{visible(host)} is not found: {reason}") from None
        if host.rstrip(".").lower() in _METADATA_NAMES or any(map(is_metadata, addresses)):
            raise RefusedAddressError(
                f"{visible(host)} is where a cloud hands out this machine's credentials; "
                "nothing was sent, and nothing ever will be"
            )
        if not addresses:
            raise MCPConnectionError(f"{visible(host)} has no address")
        return addresses


MAX_READ = 5_000_000
_CHUNK = 64 * 1024


def media_kind(media: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media.partition(";")[0].strip().lower()


async def send(
    guard: AddressGuard,
    method: str,
    url: httpx.URL,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    connect: float,
    total: float,
    max_bytes: int = MAX_READ,
) -> tuple[httpx.Response, bool]:
    """Send one request; return its reply, and whether the body was cut. Raises MCPError.

    It takes at most `total` seconds. Redirects are not followed, and the environment's proxies and
    settings not used.
    """
    client = httpx.AsyncClient(
        transport=_GuardedTransport(guard),
        timeout=httpx.Timeout(total, connect=min(connect, total)),
        headers={"User-Agent": "ipyagent", "Accept": "*/*", "Accept-Encoding": "identity"},
        trust_env=False,
    )
    # As bytes, because httpx accepts text only in ASCII.
    encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
    try:
        async with (
            asyncio.timeout(total),
            client,
            client.stream(method, url, headers=encoded, content=body) as reply,
        ):
            data, cut = await _read_body(reply, max_bytes)
    except (httpx.ConnectTimeout, httpx.ConnectError) as error:
        reason = str(error) or "no answer"
        raise MCPConnectionError(f"it cannot be reached: {visible(reason)}") from None
    except (TimeoutError, httpx.TimeoutException):
        raise MCPToolCallError(f"it did not answer in full within {total:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, zlib.error) as error:
        reason = str(error) or type(error).__name__
        raise MCPToolCallError(f"the connection failed: {visible(reason[:200])}") from None
    kept = [(k, v) for k, v in reply.headers.multi_items() if k != "content-encoding"]
    return httpx.Response(reply.status_code, headers=kept, content=data), cut


class _GuardedTransport(httpx.AsyncHTTPTransport):
    """A transport that connects only to the addresses that were checked."""

    def __init__(self, guard: AddressGuard) -> None:
        super().__init__(verify=_certificates(), trust_env=False)
        self._guard = guard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the first address of its host that takes connections."""
        url = request.url
        _, host, port = origin(url)
        # TLS still asks for the certificate of the host, and `Host` names it already.
        request.extensions["sni_hostname"] = host
        last: Exception | None = None
        for address in await self._guard.addresses(host, port):
            request.url = url.copy_with(host=address)
            try:
                return await super().handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                last = error
        raise last or httpx.ConnectError("no address")


@cache
def _certificates() -> ssl.SSLContext:
    # Reading them takes a tenth of a second.
    return httpx.create_ssl_context(trust_env=False)


async def _read_body(reply: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """Return the body, at most `max_bytes` of it, also if it is compressed."""
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = zlib.decompressobj(47) if encoding in ("gzip", "x-gzip", "deflate") else None
    if unpack is None and encoding not in ("", "identity"):
        raise MCPError(
            f"its answer is encoded as {visible(encoding[:40])}, which was not requested"
        )
    body = bytearray()
    async for piece in reply.aiter_raw(_CHUNK):
        body += unpack.decompress(piece, max_bytes + 1 - len(body)) if unpack else piece
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), True
    return bytes(body), False
