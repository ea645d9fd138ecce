"""SHA-256 digests, in hexadecimal digits: they identify exact content.

    digest_json      a value as canonical JSON: a call as approved, a plan, a tool's identity
    digest_text      a text letter by letter: code as shown, a server's words
    digest_content   the content of a file: as previewed or as a run left it

Digests are stored in files and journals, so the results of these functions must not change.
"""

from __future__ import annotations

import hashlib
import json


def digest_bytes(data: bytes) -> str:
    """Return the digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_text(text: str) -> str:
    """Return the digest of a text in UTF-8, lone surrogates included."""
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def digest_json(value: object) -> str:
    """Return the digest of a value as JSON with sorted keys in ASCII."""
    return digest_text(json.dumps(value, sort_keys=True))


class ListDigest:
    """The digest of a list that grows, as `digest_json` has it."""

    def __init__(self, *items: object) -> None:
        self._seen, self._mark = hashlib.sha256(), "["
        self.add(*items)

    def add(self, *items: object) -> None:
        """Add items to the list."""
        text = json.dumps(items, sort_keys=True)[1:-1]
        self._seen.update(f"{self._mark}{text}".encode())
        self._mark = ", "

    def close(self, *items: object) -> str:
        """Return the digest of the list with these items at its end; it goes on without them."""
        whole = self._seen.copy()
        whole.update(f"{self._mark}{json.dumps(items, sort_keys=True)[1:]}".encode())
        return whole.hexdigest()


def digest_content(content: bytes | None) -> str | None:
    """Return the digest of a file's content; None for no file."""
    return None if content is None else digest_bytes(content)
