"""The arguments of an operation: one for each parameter, and one for the body."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, Self

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Model
from ipyagent.services.openapi.documents import Document, told
from ipyagent.services.openapi.schemas import Converter, References

_HEADERS_OF_OURS = {"accept", "content-type", "authorization", "host", "content-length", "cookie"}
_HEADERS_OF_OURS |= {"transfer-encoding", "connection", "te", "upgrade", "expect"}
_BODIES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_STYLES = {
    "path": {"simple"},
    "query": {"form", "spaceDelimited", "pipeDelimited", "tabs", "deepObject"},
    "header": {"simple"},
    "cookie": {"form"},
}
_COLLECTIONS = {  # Swagger's words for how an array is written
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabs", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}


class Parameter(Model):
    """A parameter and how its value is written; `argument` is the model's name for it."""

    name: str
    argument: str
    where: Literal["path", "query", "header", "cookie"]
    style: str = "form"
    explode: bool = False
    as_json: bool = False


class NotCallableError(ConfigError):
    """An operation needs what cannot be sent."""


class Arguments:
    """The arguments of one operation as they are put together."""

    def __init__(self, document: Document, references: References, budget: int) -> None:
        self.document, self.references = document, references
        self.converter = Converter(references, budget)
        self.parameters: list[Parameter] = []
        self.media: str | None = None
        self.body: str | None = None
        self.deep: tuple[str, ...] = ()
        self.properties: JsonDict = {}
        self.required: list[str] = []

    @property
    def schema(self) -> JsonDict:
        """The JSON Schema of all of them."""
        required = {"required": self.required} if self.required else {}
        return {
            "type": "object",
            "properties": self.properties,
            **required,
            "additionalProperties": False,
        }

    def fill(self, nodes: list[JsonDict], operation: JsonDict) -> Self:
        """Take in parameters and body; raises NotCallableError."""
        for node in nodes:
            ours = node["in"] == "header" and node["name"].lower() in _HEADERS_OF_OURS
            if node["in"] in _STYLES and not ours:
                self._parameter(node)
        if "swagger" in self.document:
            self._old_body(nodes, operation)
        else:
            self._body(operation)
        return self

    def _parameter(self, node: JsonDict) -> None:
        where, name = node["in"], node["name"]
        content = node.get("content")
        schema = node if "swagger" in self.document else node.get("schema")
        if isinstance(content, dict) and content:
            media = next(iter(content.values()))
            schema = media.get("schema") if isinstance(media, dict) else None
        style, explode = self._style(node)
        required = where == "path" or node.get("required") is True
        if style not in _STYLES[where]:
            if required:
                raise NotCallableError(f"{told(name, 40)} is written in a way that is not known")
            return
        argument = self._argument(name, where)
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
            return _COLLECTIONS.get(str(node.get("collectionFormat")), (usual, False))
        style = str(node.get("style", usual))
        return style, bool(node.get("explode", style in ("form", "deepObject")))

    def _argument(self, name: str, where: str) -> str:
        """A name that every provider takes, and that no other argument has."""
        plain = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:56]
        taken = self.properties.keys()
        for new in (plain, f"{where}_{plain}"[:60]):
            if new not in taken:
                return new
        return next(new for i in range(2, 10_000) if (new := f"{plain}_{i}") not in taken)

    def _add(self, argument: str, schema: object, text: object, *, required: bool) -> None:
        new = self.converter.convert(schema)
        if text and "description" not in new:
            new = new | {"description": told(text, 300)}
        self.properties[argument] = new
        if required:
            self.required.append(argument)

    def _body(self, operation: JsonDict) -> None:
        body = self.references.follow(operation.get("requestBody"))
        content = body.get("content") if isinstance(body, dict) else None
        if not isinstance(content, dict) or not content:
            return
        media = _chosen(content)
        described = content[media]
        schema = described.get("schema") if isinstance(described, dict) else None
        self.deep = _deep_fields(described)
        self._take_body(
            media, schema, body.get("description"), required=body.get("required") is True
        )

    def _old_body(self, nodes: list[JsonDict], operation: JsonDict) -> None:
        """Swagger has the body among the parameters: one, or the fields of a form."""
        said = operation.get("consumes", self.document.get("consumes"))
        listed = [each for each in said if isinstance(each, str)] if isinstance(said, list) else []
        fields = [each for each in nodes if each["in"] == "formData"]
        whole = next((each for each in nodes if each["in"] == "body"), None)
        if whole is not None:
            media = _chosen(listed or ["application/json"])
            self._take_body(
                media,
                whole.get("schema"),
                whole.get("description"),
                required=whole.get("required") is True,
            )
        elif fields:
            files = any(each.get("type") == "file" for each in fields)
            named = [each for each in listed if each.split(";")[0].strip() in _BODIES[1:]]
            media = _BODIES[2] if files else (named or _BODIES[1:])[0]
            required = [each["name"] for each in fields if each.get("required") is True]
            schema = {
                "type": "object",
                "properties": {each["name"]: each for each in fields},
                "required": required,
            }
            self._take_body(media, schema, None, required=bool(required))

    def _take_body(self, media: str, schema: object, text: object, *, required: bool) -> None:
        self.media = media
        self.body = self._argument("body", "request")
        self._add(self.body, schema, text, required=required)


def _deep_fields(described: object) -> tuple[str, ...]:
    """The fields of a form that are written as `name[key]`, as the description says."""
    said = described.get("encoding") if isinstance(described, dict) else None
    return tuple(
        name
        for name, each in (said.items() if isinstance(said, dict) else ())
        if isinstance(each, dict) and each.get("style") == "deepObject"
    )


def _chosen(listed: Iterable[object]) -> str:
    """The media type to send of those that the service takes: JSON, if it can be."""
    names = [each for each in listed if isinstance(each, str)]
    plain = {each.partition(";")[0].strip().lower(): each for each in reversed(names)}
    for known in _BODIES:
        if known in plain:
            return plain[known]
    like_json = [each for name, each in plain.items() if name.endswith("+json") or name == "*/*"]
    first = (like_json or names or [_BODIES[0]])[0]
    return _BODIES[0] if "*" in first else first
