"""What MCP tools are called: `mcp_{server}_{tool}`, in the characters that every model takes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

_LONGEST = 64
_MARK = 9  # "_" and eight digits of a hash

Pair = tuple[str, str]
"""A server's name and a tool's, as they are."""


def tool_names(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """A name for each; none depends on the order, and a name that had to be changed is marked.

    Marked always, not only where two would be the same: what was allowed under a name once must
    not become another tool's name later.
    """
    names = {pair: _plain(pair) for pair in pairs}
    exact = Counter(name for pair, name in names.items() if name == _whole(pair))
    return {
        pair: name if name == _whole(pair) and exact[name] == 1 else _marked(pair, name)
        for pair, name in names.items()
    }


def _whole(pair: Pair) -> str:
    return f"mcp_{pair[0]}_{pair[1]}"


def _plain(pair: Pair) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", _whole(pair))[:_LONGEST]


def _marked(pair: Pair, name: str) -> str:
    whole = f"{len(pair[0])}:{pair[0]}:{pair[1]}".encode("utf-8", "surrogatepass")
    return f"{name[: _LONGEST - _MARK]}_{hashlib.sha256(whole).hexdigest()[: _MARK - 1]}"
