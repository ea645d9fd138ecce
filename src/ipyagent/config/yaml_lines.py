"""Line numbers of settings in a YAML text."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from ipyagent.phrases import join_words


def describe_lines(text: bytes, keys: Iterable[tuple[object, ...]]) -> str:
    """Return ", line 3" or ", lines 3 and 5" for settings in the text; "" for none."""
    root = _parse_root(text)
    lines = sorted({line for key in keys if (line := _find_line(root, key))})
    if not lines:
        return ""
    return f", {'lines' if len(lines) > 1 else 'line'} {join_words(map(str, lines))}"


def _parse_root(text: bytes) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text.decode("utf-8"), yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return root


def _find_line(node: yaml.Node | None, key: tuple[object, ...]) -> int | None:
    """Return the line of the last existing part of a key, counted from 1."""
    line = None
    for part in key:
        entry: tuple[yaml.Node, yaml.Node] | None = None
        if isinstance(node, yaml.MappingNode):
            entry = next((pair for pair in node.value if pair[0].value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            entry = next(((each, each) for each in node.value[part : part + 1]), None)
        if entry is None:
            break
        line, node = entry[0].start_mark.line + 1, entry[1]
    return line
