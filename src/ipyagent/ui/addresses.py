"""Addresses allowed in a view of a run: it links to the web and loads nothing from it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ipyagent.ui.transcript import Image

_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f\x7f-\x9f]+", re.ASCII | re.IGNORECASE)
_IMAGE = re.compile(
    r"data:image/(?:png|jpeg|gif|webp);base64,[a-z0-9+/= \t\n]+", re.ASCII | re.IGNORECASE
)

_SCHEME = re.compile(r"(?:https?://|mailto:)", re.ASCII | re.IGNORECASE)


def may_link(url: str) -> bool:
    """Return whether a link may lead there: http, https and mailto, absolute."""
    return _LINK.fullmatch(url) is not None


def may_show(url: str) -> bool:
    """Return whether an image may come from there: only from the page itself."""
    return _IMAGE.fullmatch(url) is not None


def not_loaded(alt: str, url: str) -> str:
    """Return the text in the place of an image that would be fetched."""
    return f"[image not loaded: {' '.join(f'{alt} {url}'.split())}]"


def unnamed_target(url: str, text: str) -> str:
    """Return the target of a link, or "" if its own text is that address or host."""
    try:
        parts = urlsplit(url)
        # A look-alike host is recognizable in its ASCII form.
        host = parts.netloc.rpartition("@")[2].encode("idna").decode()
    except ValueError:
        return url
    target = parts.path if parts.scheme.lower() == "mailto" else host
    named_host = re.split(r"[/?#]", _SCHEME.sub("", text.strip()), maxsplit=1)[0]
    # A name before an @ reads like a host, so such a link always gets its true one.
    return "" if named_host.lower() == target.lower() and "@" not in parts.netloc else target


def image_source(image: Image) -> str | None:
    """Return the image as a data: address; None unless it is a bitmap that a page may show."""
    url = f"data:{image.media_type};base64,{''.join(image.data.split())}"
    return url if may_show(url) else None
