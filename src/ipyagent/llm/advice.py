"""The address of a request, and advice after its failure."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from ipyagent.llm.destinations import Destination

Trouble = Literal["", "refused", "dns", "certificate", "tls", "redirects", "timeout"]

_OTHER = "or choose another model with `%agent model ID`"
_ADDRESS = "`%agent config llm.api_base=URL`"
_TLS = ("SSLError", "ClientConnectorSSLError")
_NOT_ACCEPTED = re.compile(r"certificate verify failed: (.+?)\.?\s*\(_ssl")


def trouble_of(errors: Iterable[BaseException]) -> Trouble:
    """Classify what kept a connection from being made, from an error and those that led to it."""
    for error in errors:
        name = type(error).__name__
        if name == "TooManyRedirects":
            return "redirects"
        if "CERTIFICATE_VERIFY" in str(error) or "CertificateError" in name:
            return "certificate"
        if isinstance(error, ssl.SSLError) or name in _TLS:
            return "tls"
        if isinstance(error, socket.gaierror):
            return "dns"
        if isinstance(error, ConnectionRefusedError):
            return "refused"
        if isinstance(error, TimeoutError) or "Timeout" in name:
            return "timeout"
    return ""


def tls_problem(errors: Iterable[BaseException]) -> str:
    """Explain why no secure connection was made, from an error and those that led to it."""
    for error in errors:
        if found := _NOT_ACCEPTED.search(str(error)):
            return f"its server's certificate was not accepted ({found[1]})"
        if isinstance(error, ssl.SSLError) and (reason := getattr(error, "reason", None)):
            return f"no secure connection could be made ({reason.replace('_', ' ').lower()})"
    return "no secure connection could be made"


def asked_at(where: Destination) -> str:
    """Return the address that was asked and where its key came from; never the key."""
    address = address_of(where) or f"the address that LiteLLM has for {where.provider}"
    key = f"with the key in {where.key_from}" if where.key_from else "without a key"
    own = where.base is None  # LiteLLM finds credentials of its own
    return f"Asked at {address}." if own else f"Asked at {address}, {key}."


def address_of(where: Destination) -> str:
    """Return the address without possible secrets; empty if LiteLLM builds it."""
    parts = urlsplit(where.base or "")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else ""


def next_step(where: Destination, model: str, status: int, trouble: Trouble = "") -> str:
    """Return a remedy for that failure."""
    is_ollama = where.provider == "ollama"
    match status:
        case 401 | 403:
            return _about_key(where)
        case 404 if is_ollama:
            name = model.partition("/")[2]
            return f"Fetch the model with `ollama pull {name}`, {_OTHER}."
        case 404 | 405:
            return (
                f"Check the model's name and the address ({_ADDRESS}): one that speaks OpenAI's "
                f"format usually ends in /v1, {_OTHER}."
            )
        case 402 | 429:
            return f"Wait a little and run the cell again, check the account's limits, {_OTHER}."
        case _ if 400 <= status < 500:
            return f"Check `%agent config llm`, {_OTHER}."
        case _ if status >= 500:
            return f"The service itself is in trouble: try again later, {_OTHER}."
    return _about_connection(where, trouble)


def _about_key(where: Destination) -> str:
    if where.key_from is None:
        wanted = where.keys[0] if where.keys else "LITELLM_API_KEY"
        return f"Set the environment variable {wanted} to a key and run the cell again, {_OTHER}."
    return (
        f"Check the key in {where.key_from} (llm.api_key_env names another variable) and what it "
        f"may be used for, {_OTHER}."
    )


def _about_connection(where: Destination, trouble: Trouble) -> str:
    host = urlsplit(where.base or "").hostname or ""
    if trouble == "redirects":
        return f"It sends requests round in a circle: correct the address with {_ADDRESS}."
    if trouble == "certificate":
        return (
            "Where your network has certificates of its own, name their file in SSL_CERT_FILE "
            f"before the kernel starts; else correct the address with {_ADDRESS}, {_OTHER}."
        )
    if trouble == "tls":
        return (
            "Does that server speak https? If not, write http:// in the address with "
            f"{_ADDRESS}, {_OTHER}."
        )
    if trouble == "dns":
        return f"No address is known for {host}: correct {_ADDRESS}, or check the network."
    if where.provider == "ollama":
        return f"Is Ollama running? Start it with `ollama serve`, {_OTHER}."
    if _is_local(host):
        return f"Is the server running? Start it, correct the address with {_ADDRESS}, {_OTHER}."
    if trouble == "timeout":
        return f"Check the network, raise llm.timeout, {_OTHER}."
    return f"Check the network and its proxy (HTTPS_PROXY), the address ({_ADDRESS}), {_OTHER}."


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
