"""The operations of a description, with their arguments."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pydantic import Field

from ipyagent.json_types import JsonDict
from ipyagent.phrases import plural
from ipyagent.plaintext import excerpt
from ipyagent.schema import Model
from ipyagent.schema.base import JsonObject
from ipyagent.services.openapi.arguments import NotCallableError, OperationArguments, Parameter
from ipyagent.services.openapi.documents import Document
from ipyagent.tools.schema_references import References

PLACEHOLDER = re.compile(r"{([^{}]*)}")
"""A parameter in a path."""

METHODS = ("get", "post", "put", "patch", "delete")

MAX_OPERATIONS = 2_000
MAX_STORED = 4_000_000
"""Maximum bytes of the stored operations of one service."""

MAX_TYPED = 64
"""Maximum number of operations with tools of their own; of more, less detail is stored."""

_MAX_DESCRIBED = 230_000  # characters of operations that a model reads all at once

_SIZES, _SMALL_SIZES = (400, 120, 40, 12, 0), (12, 0)
"""Maximum numbers of schemas in an operation: the largest that fits is used."""

_MAX_OPERATION = 8_000
_MAX_NOTICES = 5


class Operation(Model):
    """An operation of a service. `arguments` is a JSON Schema; `media` the body's media type."""

    name: str
    method: str
    path: str
    summary: str = ""
    parameters: tuple[Parameter, ...] = ()
    media: str | None = None
    body: str | None = None
    """The argument that holds the body."""
    deep: tuple[str, ...] = ()
    """The fields of a form whose values are encoded as `name[key]`."""
    arguments: JsonObject = Field(default_factory=dict)
    base: str | None = None
    """The URL that its requests go to, if it is not the service's."""

    def dump_line(self) -> str:
        """Return it as one line of JSON, for `model_validate_json`."""
        return self.model_dump_json(exclude_defaults=True)

    def line(self) -> str:
        """Return it in one line for lists."""
        names = [f"{each.name} ({each.where})" for each in self.parameters if each.where != "path"]
        names += [f"{self.body}: {self.media}"] if self.body else []
        extra = f" [{', '.join(names)}]" if names else ""
        return f"{self.method} {self.path}{extra}{': ' if self.summary else ''}{self.summary}"


class OperationList(NamedTuple):
    """The operations of a description, with notices about those left out."""

    operations: tuple[Operation, ...]
    notices: tuple[str, ...]


ChooseBase = Callable[[JsonDict, JsonDict], str | None]
"""Returns the base URL of an operation if it has one of its own; raises NotCallableError.

The arguments are the path's item and the operation.
"""


def read(document: Document, choose_base: ChooseBase = lambda *_: None) -> OperationList:
    """Return the operations, in as much detail as fits; raises ConfigError."""
    items = [each for each in document["paths"].values() if isinstance(each, dict)]
    many = sum(len(item.keys() & METHODS) for item in items) > MAX_TYPED
    for size in _SMALL_SIZES if many else _SIZES:
        reader = _DescriptionReader(document, size, choose_base)
        operations = list(reader.operations())
        lines = [each.dump_line() for each in operations]
        if _fits(lines, MAX_STORED if many else _MAX_DESCRIBED):
            return OperationList(tuple(operations), tuple(reader.notices))
    numbers = range(1, len(lines) + 1)
    fitting = bisect_left(numbers, True, key=lambda n: not _fits(lines[:n], MAX_STORED))
    notice = f"only the first {fitting:,} operations of {len(operations):,} are kept"
    return OperationList(tuple(operations[:fitting]), (*reader.notices, notice))


def _fits(lines: list[str], most: int) -> bool:
    """Return whether the lines have at most this many bytes as JSON."""
    return sum(len(json.dumps(each)) + 2 for each in lines) < most


class _DescriptionReader:
    """Reads one description; unreadable operations are left out with a notice."""

    def __init__(self, document: Document, size: int, choose_base: ChooseBase) -> None:
        self.document, self.size, self.choose_base = document, size, choose_base
        self.references = References(document)
        self.notices: dict[str, None] = {}
        self._left_out = 0

    def operations(self) -> Iterator[Operation]:
        remaining = MAX_OPERATIONS
        for path, node in self.document["paths"].items():
            item = self.references.follow(node)
            for method in METHODS:
                operation = item.get(method) if isinstance(item, dict) else None
                if not isinstance(operation, dict) or not remaining:
                    continue
                if not _is_path(path):
                    self._skip(f"{method.upper()} {path}", "it is not a path below the service")
                elif parsed := self._operation(method.upper(), path, item, operation):
                    remaining -= 1
                    yield parsed
        if self._left_out > _MAX_NOTICES:
            more = self._left_out - _MAX_NOTICES
            self.notices[f"{plural(more, 'more operation')} left out"] = None
        if not remaining:
            self.notices[f"there are more than {MAX_OPERATIONS:,} operations"] = None
        if other := self.references.external:
            self.notices[
                f"it refers to other files, which are not read, such as {excerpt(other, 80)}; what "
                "they describe is unknown, until all is in one file"
            ] = None

    def _skip(self, subject: str, reason: str) -> None:
        self._left_out += 1
        if self._left_out <= _MAX_NOTICES:
            self.notices[f"left out: {excerpt(subject, 80)}: {reason}"] = None

    def _operation(
        self, method: str, path: str, item: JsonDict, node: JsonDict
    ) -> Operation | None:
        name = excerpt(node.get("operationId") or f"{method.lower()}{path}", 120)
        placeholders = set(PLACEHOLDER.findall(path))
        nodes = [
            each
            for each in self._parameters(item, node)
            if each["in"] != "path" or each["name"] in placeholders
        ]
        if missing := placeholders - {each["name"] for each in nodes if each["in"] == "path"}:
            # Descriptions often omit them, but their meaning is clear.
            nodes += [{"name": each, "in": "path", "required": True} for each in sorted(missing)]
        try:
            arguments = self._arguments(nodes, node)
            base = self.choose_base(item, node)
        except NotCallableError as error:
            self._skip(f"{method} {path}", str(error))
            return None
        return Operation(
            name=name,
            method=method,
            path=path,
            summary=excerpt(node.get("summary") or node.get("description") or "", 200),
            parameters=tuple(arguments.parameters),
            media=arguments.media,
            body=arguments.body,
            deep=arguments.deep,
            arguments=arguments.schema,
            base=base,
        )

    def _arguments(self, nodes: list[JsonDict], node: JsonDict) -> OperationArguments:
        """Return the arguments of an operation, in as much detail as allowed."""
        for size in (each for each in _SIZES if each <= self.size):
            arguments = OperationArguments(self.document, self.references, size).fill(nodes, node)
            if len(json.dumps(arguments.schema)) <= _MAX_OPERATION:
                break
        return arguments

    def _parameters(self, item: JsonDict, node: JsonDict) -> list[JsonDict]:
        """Return the parameters of path and operation, the operation's own replacing the path's."""
        parameters: dict[tuple[str, str], JsonDict] = {}
        for owner in (item, node):
            listed = owner.get("parameters")
            for each in listed if isinstance(listed, list) else []:
                parameter = self.references.follow(each)
                if isinstance(parameter, dict):
                    name, where = parameter.get("name"), parameter.get("in")
                    if isinstance(name, str) and name and isinstance(where, str):
                        parameters[name, where] = parameter
        return list(parameters.values())


def _is_path(path: object) -> bool:
    """Return whether it is a path of this service that cannot turn into another one."""
    if not isinstance(path, str) or len(path) > 500 or not path.startswith("/"):
        return False
    parts = path.split("/")[1:]
    return (
        not re.search(r"[\x00-\x20\x7f-\x9f\\?#]|%2[ef]|%5c", path, re.IGNORECASE)
        and all(parts[:-1] or [True])
        and not {".", ".."} & set(parts)
    )
