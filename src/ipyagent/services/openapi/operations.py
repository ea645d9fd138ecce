"""The operations of a description: what can be asked of the service, and with which arguments."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import Field

from ipyagent.json_types import JsonDict
from ipyagent.schema import Model
from ipyagent.schema.base import JsonObject
from ipyagent.services.openapi.arguments import Arguments, NotCallableError, Parameter
from ipyagent.services.openapi.documents import Document, told
from ipyagent.services.openapi.packed import MAX_UNPACKED, pack
from ipyagent.services.openapi.schemas import References

HOLE = re.compile(r"{([^{}]*)}")
"""Where a path takes a parameter."""

METHODS = ("get", "post", "put", "patch", "delete")

MAX_OPERATIONS = 2_000
MAX_KEPT = 230_000
"""Bytes that the packed operations of one service take up: a personal file holds no more."""

FEW = 64
"""So many operations can have tools of their own; of more, less detail is kept."""

_MAX_TOLD = 230_000  # characters of those that a model is told of all at once

_SIZES, _SMALL = (400, 120, 40, 12, 0), (12, 0)
"""How many schemas an operation may consist of: as many as fit."""

_MAX_OPERATION = 8_000


class Operation(Model):
    """One thing that the service does. `arguments` is a JSON Schema; `media` that of its body."""

    name: str
    method: str
    path: str
    summary: str = ""
    parameters: tuple[Parameter, ...] = ()
    media: str | None = None
    body: str | None = None
    """The argument that holds the body."""
    deep: tuple[str, ...] = ()
    """The fields of a form whose values are written as `name[key]`."""
    arguments: JsonObject = Field(default_factory=dict)

    def kept(self) -> str:
        """It as one line of JSON, from which `model_validate_json` makes it again."""
        return self.model_dump_json(exclude_defaults=True)

    def line(self) -> str:
        """It in one line, as lists show it."""
        names = [
            f"{each.argument} ({each.where})" for each in self.parameters if each.where != "path"
        ]
        names += [f"{self.body}: {self.media}"] if self.body else []
        extra = f" [{', '.join(names)}]" if names else ""
        return f"{self.method} {self.path}{extra}{': ' if self.summary else ''}{self.summary}"


class Found(NamedTuple):
    """The operations of a description, and what to tell of those that were left out."""

    operations: tuple[Operation, ...]
    notices: tuple[str, ...]


def read(document: Document) -> Found:
    """The operations, with schemas as detailed as fits; raises ConfigError for no description."""
    items = [each for each in document["paths"].values() if isinstance(each, dict)]
    many = sum(len(item.keys() & METHODS) for item in items) > FEW
    for size in _SMALL if many else _SIZES:
        reader = _Reader(document, size)
        operations = list(reader.operations())
        lines = [each.kept() for each in operations]
        if _fits(lines, MAX_UNPACKED if many else _MAX_TOLD):
            return Found(tuple(operations), tuple(reader.notices))
    numbers = range(1, len(lines) + 1)
    fitting = bisect_left(numbers, True, key=lambda n: not _fits(lines[:n], MAX_UNPACKED))
    notice = f"only the first {fitting:,} operations of {len(operations):,} are kept"
    return Found(tuple(operations[:fitting]), (*reader.notices, notice))


def _fits(lines: list[str], most: int) -> bool:
    """Whether these can be kept, and are at most so many bytes before they are packed."""
    return sum(len(json.dumps(each)) + 2 for each in lines) < most and len(pack(lines)) <= MAX_KEPT


class _Reader:
    """Reads one description; what cannot be read is left out with a notice."""

    def __init__(self, document: Document, size: int) -> None:
        self.document, self.size = document, size
        self.references = References(document)
        self.notices: dict[str, None] = {}

    def operations(self) -> Iterator[Operation]:
        left = MAX_OPERATIONS
        for path, node in self.document["paths"].items():
            item = self.references.follow(node)
            for method in METHODS:
                operation = item.get(method) if isinstance(item, dict) else None
                if not isinstance(operation, dict) or not left:
                    continue
                if not _is_path(path):
                    self._skip(f"{method.upper()} {path}", "this is no path below the service")
                elif made := self._operation(method.upper(), path, item, operation):
                    left -= 1
                    yield made
        if not left:
            self.notices[f"there are more than {MAX_OPERATIONS:,} operations"] = None
        if self.references.elsewhere:
            self.notices["it refers to other files, which are not read"] = None

    def _skip(self, what: str, why: str) -> None:
        if len(self.notices) < 5:
            self.notices[f"left out: {told(what, 80)}: {why}"] = None

    def _operation(
        self, method: str, path: str, item: JsonDict, node: JsonDict
    ) -> Operation | None:
        name = told(node.get("operationId") or f"{method.lower()}{path}", 120)
        holes = set(HOLE.findall(path))
        nodes = [
            each
            for each in self._parameters(item, node)
            if each["in"] != "path" or each["name"] in holes
        ]
        if missing := holes - {each["name"] for each in nodes if each["in"] == "path"}:
            # Often forgotten; what belongs there is clear all the same.
            nodes += [{"name": each, "in": "path", "required": True} for each in sorted(missing)]
        try:
            made = self._arguments(nodes, node)
        except NotCallableError as error:
            self._skip(f"{method} {path}", str(error))
            return None
        return Operation(
            name=name,
            method=method,
            path=path,
            summary=told(node.get("summary") or node.get("description") or "", 200),
            parameters=tuple(made.parameters),
            media=made.media,
            body=made.body,
            deep=made.deep,
            arguments=made.schema,
        )

    def _arguments(self, nodes: list[JsonDict], node: JsonDict) -> Arguments:
        """Those of an operation, in as much detail as it may have."""
        for size in (each for each in _SIZES if each <= self.size):
            made = Arguments(self.document, self.references, size).fill(nodes, node)
            if len(json.dumps(made.schema)) <= _MAX_OPERATION:
                break
        return made

    def _parameters(self, item: JsonDict, node: JsonDict) -> list[JsonDict]:
        """The parameters of path and operation, the operation's own replacing the path's."""
        found: dict[tuple[str, str], JsonDict] = {}
        for owner in (item, node):
            listed = owner.get("parameters")
            for each in listed if isinstance(listed, list) else []:
                parameter = self.references.follow(each)
                if isinstance(parameter, dict):
                    name, where = parameter.get("name"), parameter.get("in")
                    if isinstance(name, str) and name and isinstance(where, str):
                        found[name, where] = parameter
        return list(found.values())


def _is_path(path: object) -> bool:
    """Whether it is a path of this service, and cannot become another one on its way."""
    if not isinstance(path, str) or len(path) > 500 or not path.startswith("/"):
        return False
    parts = path.split("/")[1:]
    return (
        not re.search(r"[\x00-\x20\x7f-\x9f\\?#]|%2[ef]|%5c", path, re.IGNORECASE)
        and all(parts[:-1] or [True])
        and not {".", ".."} & set(parts)
    )
