"""Parse the description of a service, and read its operations with their arguments."""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import yaml
from pydantic import Field, SecretStr

from ipyagent.errors import ConfigError
from ipyagent.json_types import MAX_DEPTH, JsonDict, as_json, object_of
from ipyagent.plaintext import excerpt, limit_lines, visible
from ipyagent.schema import Model
from ipyagent.schema.messages import JsonObject
from ipyagent.services.openapi.transport import media_kind
from ipyagent.tools.json_schemas import Converter, Limits, References

MAX_BYTES = 20_000_000  # GitHub's has 13 million
MAX_YAML_BYTES = 2_000_000  # it takes twenty times as long to read as JSON
MAX_NODES = 2_000_000

_VERSIONS = ("2.0", "3.0", "3.1", "3.2")


def parse_document(data: bytes) -> JsonDict:
    """Parse a JSON or YAML description; raises ConfigError."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        is_wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as of PowerShell
        text = data.decode("utf-16" if is_wide else "utf-8-sig")
        given = json.loads(text) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text)
        if not isinstance(given, dict) or not isinstance(given.get("paths"), dict):
            raise ConfigError("it is not an OpenAPI description: it has no `paths`")
        _check_size(given)
        document: JsonDict = as_json(given)
        _check_version(document)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ConfigError("it is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"it is not JSON ({error})") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise read_error(error) from None
    return document


def read_document(path: Path) -> JsonDict:
    """Return the description in a file; raises ConfigError."""
    try:
        with path.open("rb") as file:
            return parse_document(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_error(error: Exception) -> ConfigError:
    """Return the error for an unexpected failure while reading."""
    return ConfigError(f"it cannot be read: {excerpt(error, 200)}")


def _check_version(document: JsonDict) -> None:
    version = document.get("swagger") or document.get("openapi") or "nothing"
    declared = f"{version}.0" if version in (2, 3, "2", "3") else str(version)
    supported = next((each for each in _VERSIONS if declared.startswith(each)), None)
    if supported is None or (supported == "2.0") != ("swagger" in document):
        raise ConfigError(f"its version is {visible(declared[:20])}; 2.0 and 3.0 to 3.2 are known")


_YAML_WORDS = {
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": ("true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?\d+|0o[0-7]+|0x[\da-fA-F]+", [*"-+0123456789"]),
    "float": (r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?", [*"-+.0123456789"]),
    "merge": ("<<", ["<"]),
}
"""Plain words that are no text, by type: a pattern and the characters it may begin with."""

_TAG = "tag:yaml.org,2002:"
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """A loader of YAML 1.2 without types that JSON lacks; all keys are text.

    PyYAML reads YAML 1.1, where NO is false, 010 is 8 and 12:30 is 750.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, object]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> object:
        self.flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep)

    def construct_int(self, node: Any) -> int:
        text = str(self.construct_scalar(node))
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)


_Loader.add_constructor(f"{_TAG}int", _Loader.construct_int)
_Loader.add_constructor(f"{_TAG}merge", _SafeLoader.construct_yaml_str)  # where it is a value
for _kind, (_pattern, _first) in _YAML_WORDS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"(?:{_pattern})$"), _first)


def _parse_yaml(text: str) -> object:
    if len(text) > MAX_YAML_BYTES:
        raise ConfigError(f"as YAML it is larger than {MAX_YAML_BYTES:,} bytes; use JSON")
    try:
        _check_flat(yaml.parse(text, _Loader))
        return yaml.load(text, _Loader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        if "nesting depth" in str(error):  # newer versions of LibYAML have a limit
            raise ConfigError("it is nested too deeply") from None
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f" (line {mark.line + 1}: {excerpt(problem, 100)})" if mark else ""
        raise ConfigError(f"it is neither JSON nor YAML{place}") from None


def _check_flat(events: Iterator[object]) -> None:
    """Raise if building the values is unsafe: LibYAML's deep nesting ends the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")


def _check_size(document: JsonDict) -> None:
    """Raise if the document, aliases followed, is endless or too large."""
    stack: list[object] = [document]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    raise ConfigError(f"it holds more than {MAX_NODES:,} values, or itself")


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PLACEHOLDER = re.compile(r"{([^{}]*)}")
"""A parameter in a path."""

MAX_OPERATIONS = 2_000
MAX_STORED = 4_000_000
"""Maximum bytes of the stored operations of one service."""

_MAX_OPERATION = 10_000  # characters of a stored operation
_SIZES = (400, 120, 40, 12, 0)
"""Maximum numbers of schemas in an operation: the largest that fits is used."""
_MANY = 64  # operations, of which less detail is read
_SMALL_SIZES = _SIZES[3:]
_MAX_NOTICES = 5

_OWN_HEADERS = {"accept", "content-type", "authorization", "host", "content-length", "cookie"}
_OWN_HEADERS |= {"transfer-encoding", "connection", "te", "upgrade", "expect"}
_PLACES = ("path", "query", "header", "cookie")
_RARE_STYLES = (
    *("label", "matrix", "spaceDelimited", "pipeDelimited"),
    *("ssv", "tsv", "pipes"),  # Swagger 2
)
_JSON, _FORM, _MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)


class Operation(Model):
    """An operation of a service. `media` is the body's media type, if it takes a body."""

    name: str
    method: str
    path: str
    summary: str = ""
    media: str | None = None
    headers: tuple[str, ...] = ()
    """The parameters that are headers."""
    joined: tuple[str, ...] = ()
    """The parameters of the query whose lists are joined by commas."""
    deep: tuple[str, ...] = ()
    """The parameters and the fields of a form whose values are encoded as `name[key]`."""
    inputs: JsonObject = Field(default_factory=dict)
    """The JSON Schemas of `path`, `query` (with the headers) and `body`."""
    base: str | None = None
    """The URL that its requests go to, if it is not the service's."""

    def dump_line(self) -> str:
        """Return it as one line of JSON, for `model_validate_json`."""
        return self.model_dump_json(exclude_defaults=True)

    def line(self) -> str:
        """Return it in one line for lists."""
        query = object_of(self.inputs.get("query")).get("properties", ())
        names = [f"{each} ({'header' if each in self.headers else 'query'})" for each in query]
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


class NotCallableError(ConfigError):
    """Raised for an operation that cannot be called."""


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


def read_operations(document: JsonDict, choose_base: ChooseBase = lambda *_: None) -> OperationList:
    """Return the operations, in as much detail as can be stored; raises ConfigError."""
    references = References(document)
    nodes = [*_list_nodes(references)]
    some = nodes[:MAX_OPERATIONS]
    room = min(_MAX_OPERATION, MAX_STORED // max(len(some), 1) - 4)
    operations, notices, sizes = list[Operation](), list[str](), list[int]()
    for each in some:
        try:
            found, size = _read_operation(references, each, len(nodes) > _MANY, room, choose_base)
            operations.append(found)
            sizes.append(size + 2)
        except NotCallableError as error:
            subject = excerpt(f"{each.method} {each.path}", 80)
            notices.append(f"left out: {subject}: {error}")
    notices = limit_lines(notices, _MAX_NOTICES, "left out: {} more")
    kept = bisect_left([*accumulate(sizes)], MAX_STORED)
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
            if isinstance(content := item.get(method.lower()), dict):
                yield _Node(method, path, item, content)


def _read_operation(
    references: References, node: _Node, is_one_of_many: bool, room: int, choose_base: ChooseBase
) -> tuple[Operation, int]:
    """Return an operation, in as much detail as there is room for, and its stored length.

    Raises NotCallableError.
    """
    method, path, item, content = node
    if not _is_path(path):
        raise NotCallableError("it is not a path below the service")
    parameters = _list_parameters(references, node)
    body = _find_body(references, content, parameters)
    media, form = _choose_media(object_of(body.get("content")))
    parameters = [each for each in parameters if _is_sent(each)]
    ways = [_encoding(each, is_swagger="swagger" in references.document) for each in parameters]
    names = [(way, each["name"]) for way, each in zip(ways, parameters, strict=True)]
    names += (
        ("deep", name)
        for name, each in object_of(form.get("encoding")).items()
        if object_of(each).get("style") == "deepObject"
    )
    without_schemas = Operation(
        name=excerpt(content.get("operationId") or f"{method.lower()}{path}", 120),
        method=method,
        path=path,
        summary=excerpt(content.get("summary") or content.get("description") or "", 200),
        media=media,
        headers=tuple(name for way, name in names if way == "headers"),
        joined=tuple(name for way, name in names if way == "joined"),
        deep=tuple(name for way, name in names if way == "deep"),
        base=choose_base(item, content),
    )
    for size in _SMALL_SIZES if is_one_of_many else _SIZES:
        limits = Limits(depth=12, schemas=size, text=300, choices=100)
        converter = Converter(references, limits, for_requests=True)
        inputs = _describe_inputs(converter, parameters, media, {**form, **body})
        found = without_schemas.model_copy(update={"inputs": inputs})
        length = len(json.dumps(found.dump_line()))  # stored as a text
        if length <= room:
            break
    return found, length


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


def _list_parameters(references: References, node: _Node) -> list[JsonDict]:
    """Return the parameters of path and operation, the operation's own replacing the path's."""
    placeholders = PLACEHOLDER.findall(node.path)
    # Descriptions often omit what the path already shows.
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


def _is_sent(node: JsonDict) -> bool:
    """Return whether it is a parameter, and not a header that is set here."""
    return node["in"] in _PLACES and not (
        node["in"] == "header" and node["name"].lower() in _OWN_HEADERS
    )


def _encoding(node: JsonDict, *, is_swagger: bool) -> Literal["headers", "joined", "deep", ""]:
    """Return the field of `Operation` for parameters encoded as this one; "" for the usual way.

    Raises NotCallableError: of 125,000 public operations 164 are refused here.
    """
    where, style = node["in"], node.get("collectionFormat" if is_swagger else "style")
    rare = "a cookie" if where == "cookie" else "a document" if "content" in node else None
    if rare or style in _RARE_STYLES:
        kind = rare or f"of the style {style}"
        raise NotCallableError(
            f"its parameter {excerpt(node['name'], 40)} is {kind}, which is not supported"
        )
    if where != "query":
        return "headers" if where == "header" else ""
    if style == "deepObject":
        return "deep"
    is_listed = style == "multi" if is_swagger else node.get("explode", True)
    return "" if is_listed else "joined"


def _describe_inputs(
    converter: Converter, parameters: list[JsonDict], media: str | None, body: JsonDict
) -> JsonDict:
    """Return the JSON Schemas of `path`, `query` (with the headers) and `body`."""
    is_swagger = "swagger" in converter.references.document

    def describe(schema: object, node: JsonDict) -> JsonDict:
        new = converter.convert(schema)
        if (text := node.get("description")) and "description" not in new:
            new = new | {"description": excerpt(text, 300)}
        return new

    inputs: JsonDict = {}
    for each in parameters:
        part = "path" if each["in"] == "path" else "query"
        group = inputs.setdefault(part, {"type": "object", "properties": {}})
        schema = each if is_swagger else each.get("schema")
        group["properties"][each["name"]] = describe(schema, each)
        if _is_required(each) and part == "query":
            group.setdefault("required", []).append(each["name"])
    if media is None:
        return inputs
    if is_json(media) or is_form(media):
        inputs["body"] = describe(body.get("schema"), body)
    else:
        text = excerpt(f"The text to send, as {media}. {body.get('description') or ''}", 300)
        inputs["body"] = {"type": "string", "description": text}
    return inputs | ({"required": ["body"]} if _is_required(body) else {})


def _choose_media(content: JsonDict) -> tuple[str | None, JsonDict]:
    """Return the media type to send, if there is a body, and what is said of it."""
    if not content:
        return None, {}
    media = min(content, key=_rank_media)
    if media_kind(media) == _MULTIPART:  # the only type of 1 in 250 public operations
        raise NotCallableError(f"its body is {_MULTIPART}, which is not supported")
    return _JSON if "*" in media else media, object_of(content[media])


def _find_body(references: References, operation: JsonDict, parameters: list[JsonDict]) -> JsonDict:
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
    forms = [each for each in listed if media_kind(each) in (_FORM, _MULTIPART)] or [_FORM]
    described = {"schema": {"type": "object", "properties": fields}}
    return {
        "content": dict.fromkeys([_MULTIPART] if has_file else forms, described),
        "required": any(map(_is_required, fields.values())),
    }


def _is_required(node: JsonDict) -> bool:
    return node.get("required") is True


def is_form(media: str) -> bool:
    """Return whether a body of this type has the fields of a form."""
    return media_kind(media) == _FORM


def is_json(media: str) -> bool:
    """Return whether a body of this type is one JSON value."""
    return re.fullmatch(r"\w+/(?:x-)?json|.*\+json", media_kind(media)) is not None


def _rank_media(media: str) -> int:
    """Return the rank of a media type among those that a service accepts: JSON comes first."""
    kind = media_kind(media)
    if kind in (_JSON, _FORM):
        return 0 if kind == _JSON else 1
    if is_json(kind) or kind == "*/*":
        return 2
    return 4 if kind == _MULTIPART else 3
