"""References within one JSON document: by path, by anchor, and by the id of a schema in it."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import unquote, urljoin

from ipyagent.json_types import JsonDict, object_of

Schema = JsonDict

REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
"""Keywords that refer to another schema; here none means another one in another place."""

_MANY_REFERENCES = 50
_MOST_LEVELS = 3  # references to places that are found by other references


class References:
    """Resolves references inside one document; nothing is ever fetched from elsewhere."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.external: str | None = None
        """A reference that led out of the document."""
        own = document.get("$id") or document.get("id")
        self._own = own if isinstance(own, str) else ""

    def follow(self, node: object) -> Any:
        """Return the node, or the target of its reference; None if there is none."""
        return self.resolve(node)[0]

    def resolve(self, node: object, depth: int = 0) -> tuple[Any, tuple[str, ...]]:
        """Return the node with what it refers to, and the references on the way."""
        names: dict[str, None] = {}
        while isinstance(node, dict) and (keys := [key for key in REFERRING if key in node]):
            reference = node[keys[0]]
            target = self.look_up(reference, depth)
            if target is None or reference in names or len(names) > _MANY_REFERENCES:
                return None, tuple(names)
            names[reference] = None
            beside = {key: value for key, value in node.items() if key != keys[0]}
            node = merge(target, beside) if beside and isinstance(target, dict) else target
        return node, tuple(names)

    def look_up(self, reference: object, depth: int = 0) -> object:
        """Return the target of one reference; None if there is none."""
        address, _, pointer = str(reference).partition("#")
        place = self._join(address)
        root = self.document if place == self._own else self._by_name.get(place)
        if not isinstance(reference, str) or root is None:
            self.external = self.external or str(reference)
            return None
        if pointer and not pointer.startswith("/"):
            return self._by_name.get(f"#{pointer}")
        found = self._walk(root, pointer, depth)
        if found is None and root is self.document:
            return self._by_name.get(f"#{unquote(pointer)}")
        return found

    def _join(self, address: str) -> str:
        try:
            return urljoin(self._own, address)
        except ValueError:  # as of `http://[`
            return address

    def _walk(self, node: object, pointer: str, depth: int) -> object:
        """Return what is at a path, which may lead through other references."""
        for part in unquote(pointer).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name not in node and depth < _MOST_LEVELS:
                node, _ = self.resolve(node, depth + 1)
            if isinstance(node, dict):
                node = node.get(name)
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return None
        return node

    @cached_property
    def _by_name(self) -> Schema:
        """The schemas by their ids and anchors, and definitions as if what has them were alone.

        Schemas that are put into another one still refer to their own definitions so.
        """
        named: Schema = {}
        seen: set[int] = set()  # a value with aliases comes up many times
        stack: list[object] = [self.document]
        while stack:
            node = stack.pop()
            if isinstance(node, list):
                stack += reversed(node)
            elif isinstance(node, dict) and id(node) not in seen:
                seen.add(id(node))
                stack += reversed(node.values())
                for key in ("$id", "$anchor", "$dynamicAnchor"):
                    if isinstance(name := node.get(key), str):
                        named.setdefault(self._join(name) if key == "$id" else f"#{name}", node)
                for key in ("$defs", "definitions"):
                    for name, each in object_of(node.get(key)).items():
                        named.setdefault(f"#/{key}/{name}", each)
        return named


def merge(first: Schema, second: Schema) -> Schema:
    """Return a schema with the keywords of both; those of the second win."""
    merged = {**first, **second}
    for key in ("properties", "required", "allOf"):
        one, other = first.get(key), second.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            merged[key] = {**one, **other}
        elif isinstance(one, list) and isinstance(other, list):
            merged[key] = [*one, *(each for each in other if each not in one)]
    return merged
