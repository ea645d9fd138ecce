"""The operations of a description, with their arguments."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from pydantic import Field

from ipyagent.json_types import JsonDict, object_of
from ipyagent.phrases import limit_lines, plural
from ipyagent.plaintext import excerpt
from ipyagent.schema import Model
from ipyagent.schema.base import JsonObject
from ipyagent.services.openapi.arguments import (
    NotCallableError,
    OperationArguments,
    Parameter,
    find_body,
)
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

_SIZES = (400, 120, 40, 12, 0)
"""Maximum numbers of schemas in an operation: the largest that fits is used."""

_SMALL_SIZES = 3  # the index of the first size for many operations
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


def count_operations(operations: Sequence[Operation]) -> str:
    """Return "1 operation", "2 operations"."""
    return plural(len(operations), "operation") if operations else "no operations"


class OperationList(NamedTuple):
    """The operations of a description, with notices about those left out."""

    operations: tuple[Operation, ...]
    notices: tuple[str, ...]


ChooseBase = Callable[[JsonDict, JsonDict], str | None]
"""Returns the base URL of an operation if it has one of its own; raises NotCallableError.

The arguments are the path's item and the operation.
"""


class _Node(NamedTuple):
    """An operation in the description."""

    method: str
    path: str
    item: JsonDict
    """The path's item, which holds the operation."""
    content: JsonDict


def read(document: Document, choose_base: ChooseBase = lambda *_: None) -> OperationList:
    """Return the operations, in as much detail as fits; raises ConfigError."""
    references = References(document)
    nodes = [*_list_nodes(references)]
    many = len(nodes) > MAX_TYPED
    for first in range(_SMALL_SIZES if many else 0, len(_SIZES)):
        operations, notices = [], []
        for each in nodes[:MAX_OPERATIONS]:
            try:
                operations.append(_read_operation(references, each, _SIZES[first:], choose_base))
            except NotCallableError as error:
                subject = excerpt(f"{each.method} {each.path}", 80)
                notices.append(f"left out: {subject}: {error}")
        lines = [each.dump_line() for each in operations]
        sizes = [*accumulate(len(json.dumps(each)) + 2 for each in lines)]  # stored as texts
        if not sizes or sizes[-1] < (MAX_STORED if many else _MAX_DESCRIBED):
            break
    notices = limit_lines(notices, _MAX_NOTICES, "left out: {} more")
    kept = bisect_left(sizes, MAX_STORED)
    if kept < len(operations) or len(nodes) > MAX_OPERATIONS:
        notices.append(f"only the first {kept:,} operations of {len(nodes):,} are kept")
    if other := references.external:
        notices.append(
            f"it refers to other files, which are not read, such as {excerpt(other, 80)}; what "
            "they describe is unknown, until all is in one file"
        )
    return OperationList(tuple(operations[:kept]), tuple(notices))


def _list_nodes(references: References) -> Iterator[_Node]:
    for path, given in references.document["paths"].items():
        item = object_of(references.follow(given))
        for method in METHODS:
            if isinstance(content := item.get(method), dict):
                yield _Node(method.upper(), path, item, content)


def _read_operation(
    references: References, node: _Node, sizes: Iterable[int], choose_base: ChooseBase
) -> Operation:
    """Return an operation, in as much detail as fits; raises NotCallableError."""
    method, path, item, content = node
    if not _is_path(path):
        raise NotCallableError("it is not a path below the service")
    parameters = _list_parameters(references, node)
    body = find_body(references, content, parameters)
    for size in sizes:
        arguments = OperationArguments(references, size).fill(parameters, body)
        if len(json.dumps(arguments.schema)) <= _MAX_OPERATION:
            break
    return Operation(
        name=excerpt(content.get("operationId") or f"{method.lower()}{path}", 120),
        method=method,
        path=path,
        summary=excerpt(content.get("summary") or content.get("description") or "", 200),
        parameters=tuple(arguments.parameters),
        media=arguments.media,
        body=arguments.body,
        deep=arguments.deep,
        arguments=arguments.schema,
        base=choose_base(item, content),
    )


def _list_parameters(references: References, node: _Node) -> list[JsonDict]:
    """Return the parameters of path and operation, the operation's own replacing the path's."""
    placeholders = PLACEHOLDER.findall(node.path)
    # Descriptions often omit those of the path, but their meaning is clear.
    parameters = {(name, "path"): {"name": name, "in": "path"} for name in placeholders}
    for owner in (node.item, node.content):
        listed = owner.get("parameters")
        for each in listed if isinstance(listed, list) else []:
            parameter = object_of(references.follow(each))
            name, where = parameter.get("name"), parameter.get("in")
            if not (isinstance(name, str) and name and isinstance(where, str)):
                continue
            if where != "path" or name in placeholders:
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
