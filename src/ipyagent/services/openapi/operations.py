"""The operations of a description with their arguments, and the services that have them."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, Self

from pydantic import Field, SecretStr

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, object_of
from ipyagent.phrases import limit_lines, plural
from ipyagent.plaintext import excerpt
from ipyagent.schema import Model
from ipyagent.schema.messages import JsonObject
from ipyagent.tools.json_schemas import Converter, Limits, References

_OWN_HEADERS = {"accept", "content-type", "authorization", "host", "content-length", "cookie"}
_OWN_HEADERS |= {"transfer-encoding", "connection", "te", "upgrade", "expect"}
_JSON, FORM, _MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)
_PLACES = ("path", "query", "header", "cookie")
_Style = Literal["form", "simple", "deepObject"]
_RARE_STYLES = (
    *("label", "matrix", "spaceDelimited", "pipeDelimited"),
    *("ssv", "tsv", "pipes"),  # Swagger 2
)


class Parameter(Model):
    """A parameter and how its value is encoded."""

    name: str
    where: Literal["path", "query", "header"]
    style: _Style = "form"
    explode: bool = False


class NotCallableError(ConfigError):
    """Raised for an operation that cannot be called."""


class OperationInputs:
    """Collects what one operation takes, described by at most `budget` schemas."""

    def __init__(self, references: References, budget: int) -> None:
        limits = Limits(depth=12, schemas=budget, text=300, choices=100)
        self._converter = Converter(references, limits, for_requests=True)
        self._is_swagger = "swagger" in references.document
        self.parameters: list[Parameter] = []
        self.media: str | None = None
        self.deep: tuple[str, ...] = ()
        self.schema: JsonDict = {}
        """The JSON Schemas of `path`, `query` (with the headers) and `body`."""

    def fill(self, parameters: list[JsonDict], body: JsonDict) -> Self:
        """Add parameters and the body as OpenAPI 3 has it; raises NotCallableError."""
        for node in parameters:
            is_own = node["in"] == "header" and node["name"].lower() in _OWN_HEADERS
            if node["in"] in _PLACES and not is_own:
                self._add_parameter(node)
        content = body.get("content")
        if isinstance(content, dict) and content:
            self._add_body(body, content)
        return self

    def _add_parameter(self, node: JsonDict) -> None:
        where, name = node["in"], node["name"]
        style, explode = self._style(node)
        schema = node if self._is_swagger else node.get("schema")
        part = "path" if where == "path" else "query"
        group = self.schema.setdefault(part, {"type": "object", "properties": {}})
        group["properties"][name] = self._describe(schema, node)
        if _is_required(node) and part == "query":
            group.setdefault("required", []).append(name)
        self.parameters.append(Parameter(name=name, where=where, style=style, explode=explode))

    def _style(self, node: JsonDict) -> tuple[_Style, bool]:
        """Return the style of a parameter, and whether it is exploded; raises NotCallableError.

        Of 125,000 public operations 164 are refused here.
        """
        where, style = node["in"], node.get("collectionFormat" if self._is_swagger else "style")
        rare = "a cookie" if where == "cookie" else "a document" if "content" in node else None
        if rare or style in _RARE_STYLES:
            kind = rare or f"of the style {style}"
            raise NotCallableError(
                f"its parameter {excerpt(node['name'], 40)} is {kind}, which is not supported"
            )
        usual: _Style = "form" if where == "query" else "simple"
        if self._is_swagger:
            return usual, style == "multi"
        style = "deepObject" if style == "deepObject" else usual
        return style, bool(node.get("explode", style in ("form", "deepObject")))

    def _describe(self, schema: object, node: JsonDict) -> JsonDict:
        new = self._converter.convert(schema)
        if (text := node.get("description")) and "description" not in new:
            new = new | {"description": excerpt(text, 300)}
        return new

    def _add_body(self, body: JsonDict, content: JsonDict) -> None:
        media = min(content, key=_rank_media)
        described = object_of(content[media])
        schema = described.get("schema")
        if media_kind(media) == _MULTIPART:  # the only type of 1 in 250 public operations
            raise NotCallableError(f"its body is {_MULTIPART}, which is not supported")
        self.media = _JSON if "*" in media else media
        if not (is_json(self.media) or media_kind(self.media) == FORM):
            text = f"The text to send, as {self.media}. {body.get('description') or ''}"
            body, schema = {**body, "description": text}, {"type": "string"}
        self.deep = tuple(
            name
            for name, each in object_of(described.get("encoding")).items()
            if object_of(each).get("style") == "deepObject"
        )
        self.schema["body"] = self._describe(schema, body)
        if _is_required(body):
            self.schema["required"] = ["body"]


def find_body(references: References, operation: JsonDict, parameters: list[JsonDict]) -> JsonDict:
    """Return the body of an operation as OpenAPI 3 has it; {} if there is none."""
    if "swagger" in references.document:
        return _swagger_body(references.document, operation, parameters)
    given = operation.get("requestBody")
    body = references.follow(given)
    if given and body is None:  # in another file
        return {"content": {_JSON: {}}}
    return object_of(body)


def _swagger_body(document: JsonDict, operation: JsonDict, parameters: list[JsonDict]) -> JsonDict:
    """Return Swagger's body, which is among the parameters: one, or the fields of a form."""
    consumes = operation.get("consumes", document.get("consumes"))
    listed = (
        [each for each in consumes if isinstance(each, str)] if isinstance(consumes, list) else []
    )
    for each in parameters:
        if each["in"] == "body":
            return {**each, "content": dict.fromkeys(listed or [_JSON], each)}
    fields = {each["name"]: each for each in parameters if each["in"] == "formData"}
    if not fields:
        return {}
    has_file = any(each.get("type") == "file" for each in fields.values())
    forms = [each for each in listed if media_kind(each) in (FORM, _MULTIPART)] or [FORM]
    described = {"schema": {"type": "object", "properties": fields}}
    return {
        "content": dict.fromkeys([_MULTIPART] if has_file else forms, described),
        "required": any(map(_is_required, fields.values())),
    }


def _is_required(node: JsonDict) -> bool:
    return node.get("required") is True


def media_kind(media: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Return whether a body of this type is one JSON value."""
    return re.fullmatch(r"\w+/(?:x-)?json|.*\+json", media_kind(media)) is not None


def _rank_media(media: str) -> int:
    """Return the rank of a media type among those that a service accepts: JSON comes first."""
    kind = media_kind(media)
    if kind in (_JSON, FORM):
        return 0 if kind == _JSON else 1
    if is_json(kind) or kind == "*/*":
        return 2
    return 4 if kind == _MULTIPART else 3


PLACEHOLDER = re.compile(r"{([^{}]*)}")
"""A parameter in a path."""

METHODS = ("get", "post", "put", "patch", "delete")

MAX_OPERATIONS = 2_000
MAX_STORED = 4_000_000
"""Maximum bytes of the stored operations of one service."""

_SIZES = (400, 120, 40, 12, 0)
"""Maximum numbers of schemas in an operation: the largest that fits is used."""

_MANY = 64  # operations, of which less detail is read
_SMALL_SIZES = 3  # the index of the first size for many operations
_MAX_OPERATION = 8_000
_MAX_NOTICES = 5


class Operation(Model):
    """An operation of a service. `media` is the body's media type, if it takes a body."""

    name: str
    method: str
    path: str
    summary: str = ""
    parameters: tuple[Parameter, ...] = ()
    media: str | None = None
    deep: tuple[str, ...] = ()
    """The fields of a form whose values are encoded as `name[key]`."""
    inputs: JsonObject = Field(default_factory=dict)
    """The JSON Schemas of `path`, `query` (with the headers) and `body`."""
    base: str | None = None
    """The URL that its requests go to, if it is not the service's."""

    def dump_line(self) -> str:
        """Return it as one line of JSON, for `model_validate_json`."""
        return self.model_dump_json(exclude_defaults=True)

    def line(self) -> str:
        """Return it in one line for lists."""
        names = [f"{each.name} ({each.where})" for each in self.parameters if each.where != "path"]
        names += [f"body: {self.media}"] if self.media else []
        extra = f" [{', '.join(names)}]" if names else ""
        return f"{self.method} {self.path}{extra}{': ' if self.summary else ''}{self.summary}"


class Service(Model):
    """A registered service. Only the names of variables are stored, never a secret.

    `url` identifies it, `document` is the address of its description (None: looked for below
    `url`), `base` is where requests go (None: not known yet), and `known` are the private addresses
    that it had at registration (None: it could not be resolved yet).
    """

    name: str
    url: str
    document: str | None = None
    base: str | None = None
    moved: bool = False
    """True if the user set `base`."""
    token_env: str | None = None
    header_env: dict[str, str] = Field(default_factory=dict)
    get_unasked: bool = False
    active: bool = True
    known: tuple[str, ...] | None = None
    connect_timeout: float = 10.0
    execute_timeout: float = 60.0
    configured: bool = False
    """True if it is in the settings; then only discovered facts are stored."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict, exclude=True, repr=False)
    """Headers that the settings give in full."""
    operations: tuple[Operation, ...] = Field(default=(), exclude=True, repr=False)

    @property
    def variables(self) -> dict[str, str]:
        """The headers whose values are in the environment, with their variables' names."""
        bearer = {"Authorization": self.token_env} if self.token_env else {}
        return bearer | self.header_env


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


def read(document: JsonDict, choose_base: ChooseBase = lambda *_: None) -> OperationList:
    """Return the operations, in as much detail as fits; raises ConfigError."""
    references = References(document)
    nodes = [*_list_nodes(references)]
    many = len(nodes) > _MANY
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
        if not sizes or sizes[-1] < MAX_STORED:
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
        found = OperationInputs(references, size).fill(parameters, body)
        if len(json.dumps(found.schema)) <= _MAX_OPERATION:
            break
    return Operation(
        name=excerpt(content.get("operationId") or f"{method.lower()}{path}", 120),
        method=method,
        path=path,
        summary=excerpt(content.get("summary") or content.get("description") or "", 200),
        parameters=tuple(found.parameters),
        media=found.media,
        deep=found.deep,
        inputs=found.schema,
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
