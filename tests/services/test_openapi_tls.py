"""The certificate is checked for the host name, though the connection goes to an address."""

import ssl
from pathlib import Path

import pytest
from api_lab import User

from ipyagent.errors import MCPConnectionError
from ipyagent.services.openapi import transport
from servers.certificates import certificate, serving
from servers.openapi_server import SHOP, APIServer, json_answer


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
