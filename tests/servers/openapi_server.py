"""A service described by OpenAPI on loopback: real HTTP, and every way to misbehave.

    with APIServer({"GET /openapi.json": json_answer(SHOP), "GET /items/7": json_answer({})}) as s:
        ...  # ask s.url, then look at s.seen

A route is "METHOD PATH" with the path as it arrives, query included, or without its query. What is
not there is a 404.
"""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from patience import PATIENCE

Document = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A request that arrived; the target is the one on the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Exchange:
    """One request and the means to answer it in any way."""

    def __init__(self, handler: BaseHTTPRequestHandler, seen: Seen, closing: threading.Event):
        self.handler, self.seen, self.closing = handler, seen, closing

    def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Status and headers, as they are given."""
        lines = [f"HTTP/1.1 {status} ", *(f"{k}: {v}" for k, v in (headers or {}).items())]
        self.write("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))

    def write(self, data: bytes) -> bool:
        """Send bytes; False when nobody reads any more."""
        try:
            self.handler.wfile.write(data)
        except OSError:
            return False
        return not self.closing.is_set()


Answer = Callable[[Exchange], None]


def answer(
    body: bytes = b"", status: int = 200, kind: str = "text/plain", **headers: str
) -> Answer:
    """A plain answer; `headers` as in `Content_Encoding="gzip"`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def give(exchange: Exchange) -> None:
        exchange.head(status, {"Content-Type": kind, "Content-Length": str(len(body)), **named})
        exchange.write(body)

    return give


def json_answer(value: Any, status: int = 200) -> Answer:
    """A value as JSON."""
    return answer(json.dumps(value).encode(), status, "application/json")


def redirect(where: str, status: int = 302) -> Answer:
    """A redirect to anywhere."""
    return answer(b"", status, Location=where)


def echo(exchange: Exchange) -> None:
    """The request itself, headers and all."""
    seen = exchange.seen
    told = {
        "method": seen.method,
        "target": seen.target,
        "headers": dict(seen.headers),
        "body": seen.body.decode("utf-8", "replace"),
    }
    json_answer(told)(exchange)


def silence(exchange: Exchange) -> None:
    """No answer at all, until the client gives up."""
    exchange.closing.wait(PATIENCE)


def drop(exchange: Exchange) -> None:
    """The connection ends in the middle of the answer."""
    exchange.head(200, {"Content-Type": "application/json", "Content-Length": "1000"})
    exchange.write(b'{"half": ')


def dribble(exchange: Exchange) -> None:
    """One byte at a time, for ever: no pause is ever long."""
    exchange.head(200, {"Content-Type": "text/plain", "Content-Length": "1000000"})
    while exchange.write(b".") and not exchange.closing.wait(0.05):
        pass


def endless(exchange: Exchange) -> None:
    """Chunk after chunk, without end."""
    exchange.head(200, {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"})
    while exchange.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n"):
        pass


def bomb(exchange: Exchange) -> None:
    """30 MB in 30 kB of gzip."""
    answer(gzip.compress(b"x" * 30_000_000, 9), Content_Encoding="gzip")(exchange)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that broke off is no news."""


@dataclass
class APIServer:
    """A server whose routes may change while it runs; `seen` are the requests so far."""

    routes: dict[str, Answer] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> Self:
        self._closing = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                self.close_connection = True
                if self.raw_requestline and self.parse_request():
                    owner._answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            plain = self._server.socket
            self._server.socket = self.tls.wrap_socket(
                plain, server_side=True, do_handshake_on_connect=False
            )
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def targets(self) -> list[str]:
        """The requests so far, as "METHOD TARGET"."""
        return [f"{each.method} {each.target}" for each in self.seen]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        target = handler.requestline.split(" ")[1]
        seen = Seen(handler.command, target, dict(handler.headers), handler.rfile.read(length))
        self.seen.append(seen)
        whole, plain = f"{seen.method} {target}", f"{seen.method} {target.partition('?')[0]}"
        give = self.routes.get(whole) or self.routes.get(plain) or answer(b"not here", 404)
        give(Exchange(handler, seen, self._closing))


def described(paths: Document, **more: Any) -> Document:
    """A description with these paths, by OpenAPI 3.0 unless `more` says otherwise."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "A test", "version": "1"},
        "paths": paths,
        **more,
    }


def operation(name: str | None = None, *parameters: Document, **more: Any) -> Document:
    """One operation; parameters as `query("limit", type="integer")`."""
    named = {"operationId": name} if name else {}
    listed = {"parameters": list(parameters)} if parameters else {}
    return {**named, **listed, "responses": {"200": {"description": "done"}}, **more}


def parameter(where: str, name: str, *, required: bool = False, **schema: Any) -> Document:
    """A parameter of OpenAPI 3; `style` and `explode` belong to it, all else to its schema."""
    own = {key: schema.pop(key) for key in ("style", "explode") if key in schema}
    needed = {"required": True} if required or where == "path" else {}
    return {"name": name, "in": where, **needed, **own, "schema": schema or {"type": "string"}}


SHOP = described(
    {
        "/items": {
            "get": operation("listItems", parameter("query", "limit", type="integer")),
            "post": operation(
                "addItem",
                requestBody={
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"name": {"type": "string"}},
                                "required": ["name"],
                            }
                        }
                    },
                },
            ),
        },
        "/items/{id}": {
            "parameters": [parameter("path", "id", type="integer")],
            "get": operation("getItem"),
            "delete": operation("deleteItem"),
        },
    }
)
