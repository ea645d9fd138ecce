"""Where in a YAML text a setting stands."""

from __future__ import annotations

from collections.abc import Iterable

import yaml


def place_of(text: bytes, keys: Iterable[tuple[object, ...]]) -> str:
    """Return ", line 3" or ", lines 3 and 5" for settings that are there; "" for none."""
    root = _root(text)
    lines = sorted({line for key in keys if (line := _line(root, key))})
    if not lines:
        return ""
    *others, last = map(str, lines)
    return f", lines {', '.join(others)} and {last}" if others else f", line {last}"


def _root(text: bytes) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text.decode("utf-8"), yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return root


def _line(node: yaml.Node | None, key: tuple[object, ...]) -> int | None:
    """Return the line of the last part of a key that is written there, counted from 1."""
    line = None
    for part in key:
        found: tuple[yaml.Node, yaml.Node] | None = None
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            found = next(((each, each) for each in node.value[part : part + 1]), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line
