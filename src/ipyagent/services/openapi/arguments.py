"""The arguments of an operation: one for each parameter, and one for the body."""

from __future__ import annotations

import re
from itertools import chain, count
from typing import Literal, Self

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, object_of
from ipyagent.plaintext import excerpt
from ipyagent.schema import Model
from ipyagent.services.openapi.documents import Document
from ipyagent.tools.json_schemas import Converter, Limits
from ipyagent.tools.schema_references import References

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
    """A parameter and how its value is encoded; `argument` is the model's name for it."""

    name: str
    argument: str
    where: Literal["path", "query", "header"]
    style: _Style = "form"
    explode: bool = False


class NotCallableError(ConfigError):
    """Raised for an operation that cannot be called."""


class OperationArguments:
    """Collects the arguments of one operation, described by at most `budget` schemas."""

    def __init__(self, references: References, budget: int) -> None:
        limits = Limits(depth=12, schemas=budget, text=300, choices=100)
        self._converter = Converter(references, limits, for_requests=True)
        self._is_swagger = "swagger" in references.document
        self.parameters: list[Parameter] = []
        self.media: str | None = None
        self.body: str | None = None
        self.deep: tuple[str, ...] = ()
        self._properties: JsonDict = {}
        self._required: list[str] = []

    @property
    def schema(self) -> JsonDict:
        """The JSON Schema of all arguments."""
        required = {"required": self._required} if self._required else {}
        return {
            "type": "object",
            "properties": self._properties,
            **required,
            "additionalProperties": False,
        }

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
        argument = self._unused_name(name, where)
        schema = node if self._is_swagger else node.get("schema")
        self._add(argument, schema, node, required=where == "path" or _is_required(node))
        self.parameters.append(
            Parameter(name=name, argument=argument, where=where, style=style, explode=explode)
        )

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

    def _unused_name(self, name: str, where: str) -> str:
        """Return a name that no other argument of the operation has."""
        candidates = chain((name, f"{where}_{name}"), (f"{name}_{i}" for i in count(2)))
        return next(new for new in candidates if new not in self._properties)

    def _add(self, argument: str, schema: object, node: JsonDict, *, required: bool) -> None:
        new = self._converter.convert(schema)
        if (text := node.get("description")) and "description" not in new:
            new = new | {"description": excerpt(text, 300)}
        self._properties[argument] = new
        if required:
            self._required.append(argument)

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
        self.body = self._unused_name("body", "request")
        self._add(self.body, schema, body, required=_is_required(body))


def find_body(references: References, operation: JsonDict, parameters: list[JsonDict]) -> JsonDict:
    """Return the body of an operation as OpenAPI 3 has it; {} if there is none."""
    if "swagger" in references.document:
        return _swagger_body(references.document, operation, parameters)
    given = operation.get("requestBody")
    body = references.follow(given)
    if given and body is None:  # in another file
        return {"content": {_JSON: {}}}
    return object_of(body)


def _swagger_body(document: Document, operation: JsonDict, parameters: list[JsonDict]) -> JsonDict:
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
