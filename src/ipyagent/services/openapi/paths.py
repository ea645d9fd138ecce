"""Paths of requests: filled in from a template, or matched with the templates.

Either way a value stays inside its segment. Servers and proxies decode, fold and clean paths in
many ways, so a value that any of them could take for `..` is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from urllib.parse import quote, unquote, unquote_to_bytes

from ipyagent.errors import InvalidArgumentsError
from ipyagent.plaintext import visible
from ipyagent.services.openapi.operations import PLACEHOLDER, Operation

_MAX_PATH = 4_000
_DECODINGS = 5
_SAFE = "!$&'()*+,;=:@~-._"  # characters that a segment may hold unencoded


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the template's path with its parameters encoded; raises InvalidArgumentsError."""
    for name, value in values.items():
        _check_value(value, name)
    parts = PLACEHOLDER.split(template)  # literal, name, literal, name, …, literal
    path = "".join(
        quote(values[part], safe="") if index % 2 else _quote_literal(part)
        for index, part in enumerate(parts)
    )
    for segment in path.split("/")[1:]:
        if _may_traverse(unquote(segment)):
            raise InvalidArgumentsError(f"{visible(path)} would lead out of {template}")
    return path


def find(operations: Iterable[Operation], method: str, path: str) -> tuple[Operation, str]:
    """Return the operation of a path, and the path as it is sent.

    Raises InvalidArgumentsError if there is none, or it could become another path.
    """
    segments = _segments(path)
    candidates = list(operations)
    matches = [
        (rank, each)
        for each in candidates
        if each.method == method and (rank := _match_ranks(each.path, segments)) is not None
    ]
    if not matches:
        raise InvalidArgumentsError(_describe_unknown(candidates, method, path))
    _, operation = min(matches, key=lambda match: match[0])
    parts = operation.path[1:].split("/")
    return operation, "/" + "/".join(map(_encode_segment, parts, segments))


def _encode_segment(part: str, segment: str) -> str:
    """Encode a value's @, which lax URL parsers take for the end of a user name."""
    return segment if segment == _quote_literal(part) else segment.replace("@", "%40")


def _segments(path: str) -> list[str]:
    """Return the path's segments, each in its canonical encoding."""
    if not path.startswith("/") or len(path) > _MAX_PATH:
        raise InvalidArgumentsError(
            f"path: {visible(path[:80])!r} is not a path below the service, such as /items/7; "
            "leave out the service's address"
        )
    if bad := re.search(r"[?#\\\x00-\x20\x7f-\x9f]|%2e|%5c", path, re.IGNORECASE):
        advice = "; use `query` for parameters" if bad[0] in "?#" else ""
        raise InvalidArgumentsError(f"path must not hold {visible(bad[0])!r}{advice}")
    segments = path[1:].split("/")
    if not all(segments[:-1]) and path != "/":
        raise InvalidArgumentsError("path must not hold //")
    return [_normalize(each) for each in segments]


def _normalize(segment: str) -> str:
    try:
        value = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgumentsError("path: percent-encoded characters must be UTF-8") from None
    if value:
        _check_value(value, "path")
    return quote(value, safe=_SAFE)


def _check_value(value: str, name: str) -> None:
    if not value:
        raise InvalidArgumentsError(f"{name}: an empty value would make it another path")
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", value):
        raise InvalidArgumentsError(f"{name}: a path must not hold control characters")
    if _may_traverse(value):
        raise InvalidArgumentsError(f"{name}: {visible(value[:80])!r} could lead to another path")


def _may_traverse(value: str) -> bool:
    """Return whether some server might read `.` or `..` as one of its segments."""
    for _ in range(_DECODINGS):
        folded = unicodedata.normalize("NFKC", value)
        for part in re.split(r"[/\\]", folded):
            if part.partition(";")[0].strip() in (".", ".."):
                return True
        if (decoded := unquote(value)) == value:
            return False
        value = decoded
    return True


def _match_ranks(template: str, segments: list[str]) -> list[int] | None:
    """Return a rank for each segment, lower for a closer match; None if one does not match."""
    parts = template[1:].split("/")
    if len(parts) != len(segments):
        return None
    ranks = [_match_rank(part, segment) for part, segment in zip(parts, segments, strict=True)]
    return None if None in ranks else [rank for rank in ranks if rank is not None]


def _match_rank(part: str, segment: str) -> int | None:
    if not PLACEHOLDER.search(part):
        return 0 if _quote_literal(part) == segment else None
    if PLACEHOLDER.fullmatch(part):
        return 2 if segment else None
    import re2  # takes linear time; the pattern is untrusted

    literals = PLACEHOLDER.split(part)[::2]
    pattern = ".+".join(re2.escape(_quote_literal(each)) for each in literals)
    return 1 if re2.fullmatch(pattern, segment) else None


def _quote_literal(text: str) -> str:
    return quote(unquote(text), safe=f"/{_SAFE}")


def _describe_unknown(operations: list[Operation], method: str, path: str) -> str:
    known = [f"{each.method} {each.path}" for each in operations[:300]]
    close = get_close_matches(f"{method} {path}", known, n=3, cutoff=0.5) or known[:3]
    hint = f"; it has {', '.join(close)}" if close else ""
    return f"the service has no {method} {visible(path[:200])}{hint}"
