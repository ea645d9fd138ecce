"""Network addresses that a service may have: public ones, and those the user registered.

A name is resolved once, every resulting address is checked, and the connection is made to a checked
address. So a name that resolves differently a moment later, as in DNS rebinding, gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from ipyagent.errors import MCPConnectionError
from ipyagent.plaintext import visible

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
    loop = asyncio.get_running_loop()
    outcome_future: asyncio.Future[list[str]] = loop.create_future()

    def set_result(outcome: list[str] | OSError) -> None:
        if outcome_future.done():
            return
        if isinstance(outcome, OSError):
            outcome_future.set_exception(outcome)
        else:
            outcome_future.set_result(outcome)

    def look_up() -> None:
        outcome: list[str] | OSError
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            outcome = list(dict.fromkeys(str(info[4][0]) for info in infos))
        except UnicodeError:
            outcome = socket.gaierror(f"{visible(host)} is not a valid host name")
        except OSError as error:
            outcome = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(set_result, outcome)

    threading.Thread(target=look_up, name="ipyagent-resolver", daemon=True).start()
    return await outcome_future


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
