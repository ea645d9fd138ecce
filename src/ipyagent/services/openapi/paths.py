"""Paths of requests: filled in from a template, or found among the templates.

Either way a value stays inside of its segment. Servers and what stands before them decode, fold
and clean paths in many ways, so a value that any of them could take for `..` is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from urllib.parse import quote, unquote, unquote_to_bytes

from ipyagent.errors import InvalidArgumentsError
from ipyagent.plaintext import visible
from ipyagent.services.openapi.operations import HOLE, Operation

_MAX_PATH = 4_000
_DECODINGS = 5
_PLAIN = "!$&'()*+,;=:@~-._"  # what a segment may hold as it is


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template's path with its parameters encoded; raises InvalidArgumentsError."""
    for name, value in values.items():
        _check(value, name)
    parts = HOLE.split(template)  # literal, name, literal, name, …, literal
    path = "".join(
        quote(values[part], safe="") if index % 2 else _literal(part)
        for index, part in enumerate(parts)
    )
    for segment in path.split("/")[1:]:
        if _climbs(unquote(segment)):
            raise InvalidArgumentsError(f"{visible(path)} would lead out of {template}")
    return path


def find(operations: Iterable[Operation], method: str, path: str) -> tuple[Operation, str]:
    """The operation that a path belongs to, and the path as it is sent.

    Raises InvalidArgumentsError where there is none, or where it could become another path.
    """
    segments = _segments(path)
    offered = list(operations)
    found = [
        (rank, each)
        for each in offered
        if each.method == method and (rank := _rank(each.path, segments)) is not None
    ]
    if not found:
        raise InvalidArgumentsError(_unknown(offered, method, path))
    _, operation = min(found, key=lambda match: match[0])
    parts = operation.path[1:].split("/")
    return operation, "/" + "/".join(map(_sent, parts, segments))


def _sent(part: str, segment: str) -> str:
    """A value's @ encoded: it looks like a host behind a name to what is lax about URLs."""
    return segment if segment == _literal(part) else segment.replace("@", "%40")


def _segments(path: str) -> list[str]:
    """The path's segments, each encoded in the one normal way."""
    if not path.startswith("/") or len(path) > _MAX_PATH:
        raise InvalidArgumentsError(
            f"path: {visible(path[:80])!r} is not a path below the service, such as /items/7; "
            "the service's address is known already"
        )
    if bad := re.search(r"[?#\\\x00-\x20\x7f-\x9f]|%2e|%5c", path, re.IGNORECASE):
        advice = "; use `query` for parameters" if bad[0] in "?#" else ""
        raise InvalidArgumentsError(f"path must not hold {visible(bad[0])!r}{advice}")
    segments = path[1:].split("/")
    if not all(segments[:-1]) and path != "/":
        raise InvalidArgumentsError("path must not hold //")
    return [_normal(each) for each in segments]


def _normal(segment: str) -> str:
    try:
        value = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgumentsError("path: what is encoded in it has to be UTF-8") from None
    if value:
        _check(value, "path")
    return quote(value, safe=_PLAIN)


def _check(value: str, name: str) -> None:
    if not value:
        raise InvalidArgumentsError(f"{name}: an empty value would make it another path")
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", value):
        raise InvalidArgumentsError(f"{name}: control characters have no place in a path")
    if _climbs(value):
        raise InvalidArgumentsError(f"{name}: {visible(value[:80])!r} could lead to another path")


def _climbs(value: str) -> bool:
    """Whether some server might read `.` or `..` out of it as a segment."""
    for _ in range(_DECODINGS):
        folded = unicodedata.normalize("NFKC", value)
        for part in re.split(r"[/\\]", folded):
            if part.partition(";")[0].strip() in (".", ".."):
                return True
        if (plainer := unquote(value)) == value:
            return False
        value = plainer
    return True


def _rank(template: str, segments: list[str]) -> list[int] | None:
    """How closely the template fits, the closest first; None if it does not."""
    wanted = template[1:].split("/")
    if len(wanted) != len(segments):
        return None
    ranks = [_fit(part, segment) for part, segment in zip(wanted, segments, strict=True)]
    return None if None in ranks else [rank for rank in ranks if rank is not None]


def _fit(part: str, segment: str) -> int | None:
    if not HOLE.search(part):
        return 0 if _literal(part) == segment else None
    if HOLE.fullmatch(part):
        return 2 if segment else None
    import re2  # the pattern comes from a stranger: this one takes linear time

    literals = HOLE.split(part)[::2]
    pattern = ".+".join(re2.escape(_literal(each)) for each in literals)
    return 1 if re2.fullmatch(pattern, segment) else None


def _literal(text: str) -> str:
    return quote(unquote(text), safe=f"/{_PLAIN}")


def _unknown(operations: list[Operation], method: str, path: str) -> str:
    known = [f"{each.method} {each.path}" for each in operations[:300]]
    close = get_close_matches(f"{method} {path}", known, n=3, cutoff=0.5) or known[:3]
    hint = f"; it has {', '.join(close)}" if close else ""
    return f"the service has no {method} {visible(path[:200])}{hint}"
