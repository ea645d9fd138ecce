"""Short questions to model servers on this machine, which answer soon or not at all."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

CONNECT_SECONDS = 0.2


def ask_server(
    url: str, body: object = None, *, seconds: float, most_bytes: int
) -> tuple[int, Any] | None:
    """Return the status and the JSON at an http URL; None without a useful answer.

    A body is sent as JSON in a POST. `seconds` limits each wait for the answer.
    """
    parts = urlsplit(url)
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
    connection = HTTPConnection(parts.netloc, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(seconds)
        connection.request(method, parts.path, data)
        response = connection.getresponse()
        return response.status, json.loads(response.read(most_bytes))
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()
