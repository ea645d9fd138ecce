"""The arguments of an operation: one for each parameter, and one for the body."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Literal, Self

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import excerpt
from ipyagent.schema import Model
from ipyagent.services.openapi.documents import Document
from ipyagent.tools.json_schemas import Converter, Limits
from ipyagent.tools.schema_references import References

_OWN_HEADERS = {"accept", "content-type", "authorization", "host", "content-length", "cookie"}
_OWN_HEADERS |= {"transfer-encoding", "connection", "te", "upgrade", "expect"}
_BODY_TYPES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_STYLES = {
    "path": {"simple", "label", "matrix"},
    "query": {"form", "deepObject", "spaceDelimited", "pipeDelimited"},
    "header": {"simple"},
    "cookie": {"form"},
}
_SWAGGER_STYLES = {"ssv": "spaceDelimited", "pipes": "pipeDelimited", "tsv": "tabDelimited"}


class Parameter(Model):
    """A parameter and how its value is encoded; `argument` is the model's name for it."""

    name: str
    argument: str
    where: Literal["path", "query", "header", "cookie"]
    style: str = "form"
    explode: bool = False
    as_json: bool = False


class NotCallableError(ConfigError):
    """Raised for an operation that cannot be called."""


class OperationArguments:
    """Collects the arguments of one operation."""

    def __init__(self, document: Document, references: References, budget: int) -> None:
        self.document, self.references = document, references
        limits = Limits(depth=12, schemas=budget, text=300, choices=100)
        self.converter = Converter(references, limits, for_requests=True)
        self.parameters: list[Parameter] = []
        self.media: str | None = None
        self.body: str | None = None
        self.deep: tuple[str, ...] = ()
        self.properties: JsonDict = {}
        self.required: list[str] = []

    @property
    def schema(self) -> JsonDict:
        """The JSON Schema of all arguments."""
        required = {"required": self.required} if self.required else {}
        return {
            "type": "object",
            "properties": self.properties,
            **required,
            "additionalProperties": False,
        }

    def fill(self, nodes: list[JsonDict], operation: JsonDict) -> Self:
        """Add parameters and body."""
        for node in nodes:
            is_own = node["in"] == "header" and node["name"].lower() in _OWN_HEADERS
            if node["in"] in _STYLES and not is_own:
                self._add_parameter(node)
        if "swagger" in self.document:
            self._add_swagger_body(nodes, operation)
        else:
            self._add_body(operation)
        return self

    def _add_parameter(self, node: JsonDict) -> None:
        where, name = node["in"], node["name"]
        content = node.get("content")
        schema = node if "swagger" in self.document else node.get("schema")
        if isinstance(content, dict) and content:
            media = next(iter(content.values()))
            schema = media.get("schema") if isinstance(media, dict) else None
        style, explode = self._style(node)
        required = where == "path" or node.get("required") is True
        argument = self._unused_name(name, where)
        self._add(argument, schema, node.get("description"), required=required)
        self.parameters.append(
            Parameter(
                name=name,
                argument=argument,
                where=where,
                style=style,
                explode=explode,
                as_json=isinstance(content, dict),
            )
        )

    def _style(self, node: JsonDict) -> tuple[str, bool]:
        usual = "form" if node["in"] in ("query", "cookie") else "simple"
        if "swagger" in self.document:
            form = str(node.get("collectionFormat"))
            return _SWAGGER_STYLES.get(form, usual), form == "multi"
        style = str(node.get("style"))
        style = style if style in _STYLES[node["in"]] else usual
        return style, bool(node.get("explode", style in ("form", "deepObject")))

    def _unused_name(self, name: str, where: str) -> str:
        """Return a name that no other argument of the operation has."""
        candidates = chain((name, f"{where}_{name}"), (f"{name}_{i}" for i in count(2)))
        return next(new for new in candidates if new not in self.properties)

    def _add(self, argument: str, schema: object, description: object, *, required: bool) -> None:
        new = self.converter.convert(schema)
        if description and "description" not in new:
            new = new | {"description": excerpt(description, 300)}
        self.properties[argument] = new
        if required:
            self.required.append(argument)

    def _add_body(self, operation: JsonDict) -> None:
        given = operation.get("requestBody")
        body = self.references.follow(given)
        if given and body is None:  # in another file
            body = {"content": {_BODY_TYPES[0]: {}}}
        content = body.get("content") if isinstance(body, dict) else None
        if not isinstance(content, dict) or not content:
            return
        media = _choose_media_type(content)
        described = content[media]
        media = _BODY_TYPES[0] if "*" in media else media
        schema = described.get("schema") if isinstance(described, dict) else None
        self.deep = _deep_fields(described)
        self._set_body(
            media, schema, body.get("description"), required=body.get("required") is True
        )

    def _add_swagger_body(self, nodes: list[JsonDict], operation: JsonDict) -> None:
        """Add Swagger's body, which is among the parameters: one, or the fields of a form."""
        consumes = operation.get("consumes", self.document.get("consumes"))
        listed = (
            [each for each in consumes if isinstance(each, str)]
            if isinstance(consumes, list)
            else []
        )
        fields = [each for each in nodes if each["in"] == "formData"]
        body_node = next((each for each in nodes if each["in"] == "body"), None)
        if body_node is not None:
            media = _choose_media_type(listed or ["application/json"])
            self._set_body(
                media,
                body_node.get("schema"),
                body_node.get("description"),
                required=body_node.get("required") is True,
            )
        elif fields:
            files = any(each.get("type") == "file" for each in fields)
            named = [each for each in listed if each.split(";")[0].strip() in _BODY_TYPES[1:]]
            media = _BODY_TYPES[2] if files else (named or _BODY_TYPES[1:])[0]
            required = [each["name"] for each in fields if each.get("required") is True]
            schema = {
                "type": "object",
                "properties": {each["name"]: each for each in fields},
                "required": required,
            }
            self._set_body(media, schema, None, required=bool(required))

    def _set_body(self, media: str, schema: object, text: object, *, required: bool) -> None:
        self.media = media
        self.body = self._unused_name("body", "request")
        if not (is_json(media) or media_kind(media) in _BODY_TYPES):
            text = f"The text to send, as {media}. {text or ''}".rstrip()
            schema = {"type": "string"}
        self._add(self.body, schema, text, required=required)


def media_kind(media: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Return whether a body of this type is one JSON value."""
    return re.fullmatch(r"\w+/(?:x-)?json|.*\+json", media_kind(media)) is not None


def _deep_fields(described: object) -> tuple[str, ...]:
    """Return the fields of a form that are encoded as `name[key]`, as the description says."""
    encoding = described.get("encoding") if isinstance(described, dict) else None
    return tuple(
        name
        for name, each in (encoding.items() if isinstance(encoding, dict) else ())
        if isinstance(each, dict) and each.get("style") == "deepObject"
    )


def _choose_media_type(listed: Iterable[object]) -> str:
    """Return the media type to send: JSON, if the service accepts it."""
    names = [each for each in listed if isinstance(each, str)]
    plain = {media_kind(each): each for each in reversed(names)}
    for known in _BODY_TYPES:
        if known in plain:
            return plain[known]
    like_json = [each for name, each in plain.items() if is_json(each) or name == "*/*"]
    return (like_json or names or [_BODY_TYPES[0]])[0]
