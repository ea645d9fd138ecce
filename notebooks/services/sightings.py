"""A small web service on loopback, described by OpenAPI: penguins that were seen."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

SIGHTING = {
    "type": "object",
    "properties": {
        "species": {"type": "string", "enum": ["Adelie", "Chinstrap", "Gentoo"]},
        "island": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
    },
    "required": ["species", "island", "count"],
}
DONE = {"200": {"description": "done"}}
PATHS = {
    "/sightings": {
        "get": {
            "operationId": "listSightings",
            "summary": "What was seen on an island",
            "parameters": [
                {"name": "island", "in": "query", "required": True, "schema": {"type": "string"}}
            ],
            "responses": DONE,
        },
        "post": {
            "operationId": "addSighting",
            "summary": "Record what was seen",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": SIGHTING}},
            },
            "responses": DONE,
        },
    }
}


class Service(ThreadingHTTPServer):
    """The service and what it knows; `close` ends it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def describe(self, path: Path) -> None:
        """Write the description that `%agent api register` reads."""
        document = {
            "openapi": "3.0.3",
            "info": {"title": "Sightings", "version": "1"},
            "servers": [{"url": f"http://127.0.0.1:{self.server_port}"}],
            "paths": PATHS,
        }
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")

    def close(self) -> None:
        """Stop answering."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        island = parse_qs(urlsplit(self.path).query).get("island", [""])[0]
        self._answer([each for each in self.server.seen if each["island"] == island])

    def do_POST(self) -> None:
        sighting = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(sighting)
        self._answer(sighting)

    def _answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing: the notebook is no log."""
