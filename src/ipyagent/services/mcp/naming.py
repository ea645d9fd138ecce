"""Names of MCP tools: `mcp_{server}_{tool}`, in characters that every model accepts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from ipyagent.digests import digest_bytes

_MAX_NAME = 64
_MARK_LENGTH = 9  # "_" and eight digits of a hash

Pair = tuple[str, str]
"""The original names of a server and a tool."""


def tool_names(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """Return a name for each pair, independent of their order.

    A changed name always gets a mark, even if it is unique: a name that was allowed once must not
    pass to another tool later.
    """
    names = {pair: _safe_name(pair) for pair in pairs}
    exact = Counter(name for pair, name in names.items() if name == _full_name(pair))
    return {
        pair: name if name == _full_name(pair) and exact[name] == 1 else _mark_name(pair, name)
        for pair, name in names.items()
    }


def _full_name(pair: Pair) -> str:
    return f"mcp_{pair[0]}_{pair[1]}"


def _safe_name(pair: Pair) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", _full_name(pair))[:_MAX_NAME]


def _mark_name(pair: Pair, name: str) -> str:
    identity = f"{len(pair[0])}:{pair[0]}:{pair[1]}".encode("utf-8", "surrogatepass")
    return f"{name[: _MAX_NAME - _MARK_LENGTH]}_{digest_bytes(identity)[: _MARK_LENGTH - 1]}"
