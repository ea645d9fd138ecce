"""Addresses as users write them, and the usual places of descriptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ipyagent.errors import ConfigError
from ipyagent.plaintext import visible

if TYPE_CHECKING:
    import httpx

WELL_KNOWN = (
    "/openapi.json",  # FastAPI, Litestar, …
    "/swagger.json",  # Flask-RESTX, go-swagger
    "/openapi.yaml",
    "/v3/api-docs",  # Spring
    "/swagger/v1/swagger.json",  # ASP.NET
    "/api/openapi.json",  # Django Ninja
)
"""Paths where a description is looked for, in this order."""

_DOCUMENT = re.compile(r"\.(json|ya?ml)$", re.IGNORECASE)
_PAGES = re.compile(r"/(docs|redoc)$", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!\d+(/|$))", re.IGNORECASE)


def parse_url(text: str) -> httpx.URL:
    """Return the user's address as a URL without its trailing slash; raises ConfigError.

    http:// is added only if there is no scheme. The pages `/docs` and `/redoc` are cut off.
    """
    import httpx

    text = text.strip()
    if not _SCHEME.match(text):
        text = f"http://{text}"
    try:
        url = httpx.URL(text)
        host = url.host.rstrip(".")
    except (httpx.InvalidURL, ValueError) as error:  # ValueError: lone surrogates, IDNA
        raise ConfigError(f"{visible(text)} is not an address: {error}") from None
    if url.userinfo or "\\" in text:
        raise ConfigError(
            "an address must not hold a name or password; register the service with "
            "--auth-env VARIABLE or --header-env HEADER=VARIABLE"
        )
    if url.scheme not in ("http", "https"):
        raise ConfigError(
            f"{visible(text)}: services are reached by http or https, not by {visible(url.scheme)}"
        )
    if not 0 < len(host) < 254 or "%" in host or not 0 < origin(url)[2] < 65_536:
        raise ConfigError(f"{visible(text)} is not an address such as https://example.org/api")
    plain = httpx.URL(
        str(url.copy_with(host=host, fragment=None))
    )  # drops the default port of the scheme only
    if is_document(plain):
        return plain
    return plain.copy_with(raw_path=_PAGES.sub("", path_of(plain)).rstrip("/").encode() or b"/")


def path_of(url: httpx.URL) -> str:
    """Return the path as it is sent, without a slash at its end."""
    return url.raw_path.partition(b"?")[0].decode("ascii").rstrip("/")


def is_document(url: httpx.URL) -> bool:
    """Return whether it is the address of a description itself."""
    return bool(_DOCUMENT.search(path_of(url)))


def service_url(url: httpx.URL) -> httpx.URL:
    """Return the service's own URL: the same for all its well-known descriptions."""
    path = path_of(url)
    matches = [known for known in WELL_KNOWN if path.endswith(known)]
    longest = max(matches, key=len, default="")
    return url.copy_with(raw_path=path.removesuffix(longest).encode() or b"/") if matches else url


def join_path(url: httpx.URL, path: str) -> httpx.URL:
    """Return the URL of a path, already encoded, under a service's own."""
    return url.copy_with(raw_path=(path_of(url) + path).encode("ascii"))


def format_url(url: httpx.URL | str) -> str:
    """Return the URL as users write it: without a trailing slash."""
    return visible(str(url)).removesuffix("/")


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Return scheme, host and port, for which credentials are meant."""
    usual = 443 if url.scheme == "https" else 80
    return url.scheme, url.host.rstrip("."), usual if url.port is None else url.port
