"""What may leave or change things has one door: a room that does it for all others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from repository import parse_sources

NETWORK = {"http.client", "urllib.request", "ftplib", "smtplib", "xmlrpc.client", "requests"}
CONNECTING = {"create_connection", "open_connection", "open_unix_connection", "urlopen"}
SPEAKING = ("llm/direct/", "llm/modelmap.py", "services/")
"""The places that speak to servers; contracts of imports say it of httpx and MCP's."""
PROBING = {"rehearsal/probe.py", "tools/sandbox/escape_probe.py"}
"""Processes that try to get out of their isolation."""


def connecting_names(tree: ast.AST) -> Iterator[str]:
    """Yield the modules and functions by which code opens connections."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in NETWORK)
            case ast.ImportFrom(module=str(module), names=names):
                full = {module, *(f"{module}.{each.name}" for each in names)}
                yield from full & NETWORK
                yield from (each.name for each in names if each.name in CONNECTING)
            case ast.Attribute(attr=name) if name in CONNECTING:
                yield name


@pytest.mark.parametrize(
    "code",
    [
        "import http.client",
        "from http import client",
        "from urllib.request import urlopen",
        "import socket\nsocket.create_connection(('a', 1))",
        "import asyncio\nasyncio.open_connection('a', 1)",
    ],
)
def test_a_connection_is_seen(code: str) -> None:
    assert [*connecting_names(ast.parse(code))]


def test_only_services_and_the_direct_client_open_connections() -> None:
    found = [
        f"{path}: {name}"
        for path, tree in parse_sources().items()
        if not path.startswith(SPEAKING) and path not in PROBING
        for name in connecting_names(tree)
    ]
    assert found == []
