"""Which network addresses a service may be at: public ones, and those that the person meant.

A name is resolved once, every address of the answer is judged by what it leads to, and the
connection is made to that very address: a name that means something else a moment later, as in DNS
rebinding, gains nothing.
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
"""The addresses of a host, as text; raises OSError."""

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
"""Where clouds hand out credentials to whoever asks from the machine."""

_METADATA_NAMES = {"metadata.google.internal", "metadata.goog", "metadata"}

_NOT_PUBLIC = tuple(ipaddress.ip_network(network) for network in ("192.0.0.0/24", "3fff::/20"))
"""Local or reserved, which Python's `is_global` does not say everywhere."""

_UNICAST = ipaddress.ip_network("2000::/3")
"""All that was ever given out of IPv6; what is elsewhere is local, reserved or a translation."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_TRANSLATED = ipaddress.ip_network("::ffff:0:0:0/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


class RefusedAddressError(MCPConnectionError):
    """A host is where nothing is sent to."""


def normal(text: str) -> Address:
    """An address in its plain form: `::ffff:127.0.0.1` is 127.0.0.1; raises ValueError."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def meanings(address: Address) -> list[Address]:
    """The address and those of IPv4 that it carries inside, as tunnels and translators do."""
    if isinstance(address, IPv4Address):
        return [address]
    found: list[Address | None] = [address, address.ipv4_mapped, address.sixtofour]
    found += address.teredo or ()
    low, middle = int(address) & 0xFFFF_FFFF, int(address) >> 32 & 0xFFFF_FFFF
    carries = address in _NAT64 or address in _TRANSLATED or middle in _ISATAP
    if carries or (address in _COMPATIBLE and low > 1):
        found.append(IPv4Address(low))
    return [each for each in found if each is not None]


def is_public(address: Address) -> bool:
    """Whether it is on the open Internet, and so is all that it leads to."""
    return all(
        each.is_global
        and not each.is_multicast
        and (each.version == 4 or each in _UNICAST or each in _NAT64)
        and not any(each in network for network in _NOT_PUBLIC if network.version == each.version)
        for each in meanings(address)
    )


def is_metadata(address: Address) -> bool:
    """Whether it leads to where a cloud hands out a machine's credentials."""
    return any(
        each in network
        for each in meanings(address)
        for network in _METADATA
        if network.version == each.version
    )


async def system_resolve(host: str, port: int) -> list[str]:
    """What the system's resolver says; raises OSError.

    In a thread that nobody waits for: a resolver without a network may take half a minute, and the
    pool of an event loop would hold up the loop's end.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: list[str] | OSError
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(info[4][0]) for info in infos))
        except UnicodeError:
            found = socket.gaierror(f"{visible(host)} is not a host's name")
        except OSError as error:
            found = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=ask, name="ipyagent-resolver", daemon=True).start()
    return await answer


@dataclass(frozen=True)
class Guard:
    """Decides where a connection may go. `known` are private addresses that the person allowed."""

    known: frozenset[Address] = frozenset()
    resolve: Resolve = system_resolve

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses to connect to; raises RefusedAddressError where one of them is none."""
        found = await self.resolved(host, port)
        for address in found:
            if address not in self.known and not is_public(address):
                raise RefusedAddressError(
                    f"{visible(host)} is at {address}, which is on this machine or in its network, "
                    "and not where you registered it; nothing was sent. If it was moved on "
                    "purpose, remove it and register it again"
                )
        return [str(address) for address in found]

    async def resolved(self, host: str, port: int) -> list[Address]:
        """The host's addresses, whatever they are but never those of a cloud's metadata."""
        try:
            found = [normal(each) for each in await self.resolve(host, port)]
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise MCPConnectionError(f"{visible(host)} is not found: {why}") from None
        if host.rstrip(".").lower() in _METADATA_NAMES or any(map(is_metadata, found)):
            raise RefusedAddressError(
                f"{visible(host)} is where a cloud hands out this machine's credentials; "
                "nothing was sent, and nothing ever is"
            )
        if not found:
            raise MCPConnectionError(f"{visible(host)} has no address")
        return found
