"""https: the certificate counts for the name, though the connection goes to an address."""

import datetime
import ssl
from pathlib import Path

import pytest
from api_lab import Person
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ipyagent.errors import MCPConnectionError
from ipyagent.services.openapi import transport
from servers.openapi_server import SHOP, APIServer, json_answer


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    day = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(day - datetime.timedelta(days=1))
        .not_valid_after(day + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, secret


def test_a_certificate_is_that_of_the_registered_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key = certificate(tmp_path, "right.example")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pem, key)
    person = Person(tmp_path / "folder")
    person.names |= {host: ["127.0.0.1"] for host in ("right.example", "wrong.example")}
    routes = {"GET /openapi.json": json_answer(SHOP), "GET /items": json_answer([])}
    with APIServer(routes, tls=served) as server:
        said = person.services.register("s", f"https://right.example:{server.port}")
        assert "certificate verify failed" in said  # nobody vouches for it
        assert server.seen == []
        trusting = ssl.create_default_context(cafile=str(pem))
        monkeypatch.setattr(transport, "_certificates", lambda: trusting)
        assert "4 operations" in person.services.refresh("s")
        assert person.request("GET", "/items").success
        said = person.services.register("w", f"https://wrong.example:{server.port}")
        assert "certificate verify failed" in said
        seen = len(server.seen)
        server.routes["GET /items"] = json_answer([])
        person.names["right.example"] = ["127.0.0.1"]
        monkeypatch.setattr(transport, "_certificates", ssl.create_default_context)
        with pytest.raises(MCPConnectionError, match="certificate verify failed"):
            person.request("GET", "/items")
        assert len(server.seen) == seen
