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
    return digest_bytes(json.dumps(value, sort_keys=True).encode("ascii"))


def digest_content(content: bytes | None) -> str | None:
    """Return the digest of a file's content; None for no file."""
    return None if content is None else digest_bytes(content)
