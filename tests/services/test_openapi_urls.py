"""Addresses as users write them."""

import pytest

from ipyagent.errors import ConfigError
from ipyagent.services.openapi import transport

MEANT = [
    ("localhost:8000", "http://localhost:8000"),
    ("example.org", "http://example.org"),
    ("example.org/api/", "http://example.org/api"),
    ("HTTP://Example.ORG:80/Api", "http://example.org/Api"),
    ("HTTPS://Example.org:443", "https://example.org"),
    ("https://example.org:8443/", "https://example.org:8443"),
    ("http://h/docs", "http://h"),
    ("http://h/docs/", "http://h"),
    ("http://h/docs#/default/get", "http://h"),
    ("http://h/v1/redoc?x=1", "http://h/v1"),
    ("h/docs", "http://h"),
    ("http://h/docs/more", "http://h/docs/more"),
    ("http://h/mydocs", "http://h/mydocs"),
    ("http://h///", "http://h"),
    ("http://h/a/../docs", "http://h"),
    ("http://h.:80/", "http://h"),
    ("http://[::1]:8000/docs", "http://[::1]:8000"),
    ("  http://h \n", "http://h"),
    ("127.1:80/redoc", "http://127.1"),
    ("http://h/openapi.json?version=2", "http://h/openapi.json?version=2"),
]


@pytest.mark.spec("P38")
def test_an_address_is_normalized() -> None:
    written = {text: transport.format_url(transport.parse_url(text)) for text, _ in MEANT}
    assert written == dict(MEANT)
    assert all(transport.parse_url(meant) == transport.parse_url(text) for text, meant in MEANT)


OTHER_SCHEMES = [
    "ftp://h", "file:///etc/passwd", "javascript:alert(1)", "mailto:a@b", "unix:/x", "ws://h",
    "gopher://h:70", "FILE:///x", "localhost:80a",
]  # fmt: skip
INVALID = [
    "", "http://", "//evil", "http:/h", "http://h:0", "http://h:99999", "http://h\r\nX: y",
    "http://u:p@h", "http://u@h", "http://h\\@evil", "http://１２７.0.0.1", "http://a b",
    "http://xn--/", "http://h/\ud800", "\ud800",
]  # fmt: skip


def refusal(written: str) -> str:
    """Return why an address is refused; "" if it is not."""
    try:
        transport.parse_url(written)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.spec("P38")
def test_another_scheme_is_refused_and_never_becomes_http() -> None:
    why = {each: refusal(each) for each in OTHER_SCHEMES}
    assert {
        each: text for each, text in why.items() if "reached by http or https" not in text
    } == {}


@pytest.mark.spec("P38")
def test_an_invalid_address_is_refused() -> None:
    assert [each for each in INVALID if not refusal(each)] == []


HOMES = [
    ("http://h/openapi.json", "http://h"),
    ("http://h/v1/swagger.json", "http://h/v1"),
    ("http://h/swagger/v1/swagger.json", "http://h"),
    ("http://h/api/openapi.json", "http://h"),
    ("http://h/x/other.yaml", "http://h/x/other.yaml"),
]


def test_well_known_descriptions_belong_to_the_service_at_the_parent_url() -> None:
    for document, home in HOMES:
        url, named = transport.parse_service(document)
        assert (transport.format_url(url), named) == (home, document)
    assert transport.parse_service("h/docs")[1] is None
