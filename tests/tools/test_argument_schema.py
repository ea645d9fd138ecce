"""Arguments: what a model is told of them, and what happens to those that do not fit."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.tools.argument_schema import JsonArgumentSchema, TypedArgumentSchema, signature_schema


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


@dataclass
class Box:
    at: Point


class Pair(TypedDict):
    left: int


class Open(BaseModel, extra="allow"):
    x: int


def problem(arguments: TypedArgumentSchema | JsonArgumentSchema, given: Any) -> str:
    with pytest.raises(InvalidArgumentsError) as caught:
        arguments.validate(given)
    return str(caught.value)


@pytest.mark.spec("A39", "P13")
def test_nothing_but_the_declared_arguments_is_taken_at_any_depth() -> None:
    def draw(box: Box, points: list[Point], pair: Pair, open_: Open, more: Point | None = None):
        """Draw."""

    given = {"box": {"at": {"x": 1}}, "points": [{"x": 1}], "pair": {"left": 1}, "open_": {"x": 1}}
    invented = json.loads(json.dumps(given))
    invented["points"][0]["z"] = invented["box"]["at"]["z"] = 2
    assert TypeAdapter(Point).validate_python({"x": 1, "z": 2}), "by itself a model ignores it"

    arguments = signature_schema(draw)
    assert arguments.validate(given)["box"] == Box(Point(x=1))
    said = problem(arguments, invented)
    assert "points.0.z: Extra" in said
    assert "box.at.z: Extra" in said
    for path, wrong in {
        "colour": {**given, "colour": 1},
        "box.z": {**given, "box": {"at": {"x": 1}, "z": 2}},
        "pair.z": {**given, "pair": {"left": 1, "z": 2}},
        "open_.z": {**given, "open_": {"x": 1, "z": 2}},
        "more.z": {**given, "more": {"x": 1, "z": 2}},
    }.items():
        assert f"{path}: " in problem(arguments, wrong)

    jsonschema.validate(given, arguments.schema)
    with pytest.raises(jsonschema.ValidationError, match="'z' was unexpected"):
        jsonschema.validate(invented, arguments.schema)


@pytest.mark.spec("A39", "D10")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "path: Field required"),
        ({"path": None}, "path: "),
        ({"path": 1}, "path: "),
        ({"path": "x", "mode": "truncate"}, "mode: "),
        ({"path": "x", "count": 0}, "count: "),
        ({"path": "x", "count": "many"}, "count: "),
        ([], "arguments: "),
        ("path", "arguments: "),
    ],
)
def test_a_message_names_the_field(given: Any, field: str) -> None:
    def take(
        path: str,
        mode: Literal["overwrite", "append"] = "overwrite",
        count: Annotated[int, Field(ge=1)] = 1,
    ) -> None:
        """Take."""

    assert field in problem(signature_schema(take), given)


def test_a_flood_of_wrong_names_is_answered_in_few_words() -> None:
    said = problem(signature_schema(lambda: 1), {f"{n}" + "x" * 10_000: n for n in range(1_000)})
    assert len(said) < 4_000
    assert said.endswith("; …")


@pytest.mark.spec("D12")
def test_parameters_may_have_any_name_and_any_union() -> None:
    def odd(
        schema: str, model_config: int, _x: int | str, json: Point | list[int] | None = None
    ) -> None:
        """Take."""

    arguments = signature_schema(odd)
    given = {"schema": "public", "model_config": 1, "_x": "a", "json": [1, 2]}
    assert arguments.validate(given) == given
    assert list(arguments.schema["properties"]) == list(given)
    assert arguments.schema["required"] == ["schema", "model_config", "_x"]
    union = arguments.schema["properties"]["json"]["anyOf"]
    assert [each["type"] for each in union] == ["object", "array", "null"]
    assert arguments.validate(given | {"json": {"x": 1}})["json"] == Point(x=1)


@pytest.mark.spec("D12")
def test_arguments_left_out_get_the_functions_own_defaults() -> None:
    unset = object()

    def take(
        a: int = 3,
        b: Any = unset,
        c: Annotated[int, Field(alias="from")] = 5,
        d: int = Field(default=6, ge=1),
        *,
        e: str | None = None,
    ) -> None:
        """Take."""

    arguments = signature_schema(take)
    assert arguments.validate({}) == {"a": 3, "b": unset, "c": 5, "d": 6, "e": None}
    assert arguments.validate({"from": 1})["c"] == 1
    assert "required" not in arguments.schema
    assert "default" not in arguments.schema["properties"]["b"]
    assert "d: " in problem(arguments, {"d": 0})


def test_the_model_reads_defaults_that_are_lists_and_objects() -> None:
    defaults = {"a": [1, 2], "b": [], "c": {"x": 1}, "d": ["north", None]}

    def take(
        a: list[int] = defaults["a"],
        b: list[int] = defaults["b"],
        c: dict[str, int] = defaults["c"],
        d: list[str | None] | None = defaults["d"],
        e: list[int] = [0] * 1_000,
    ) -> None:
        """Take."""

    properties = signature_schema(take).schema["properties"]
    sent = {name: each["default"] for name, each in properties.items() if "default" in each}
    assert sent == defaults


def test_a_field_without_a_default_is_required() -> None:
    def take(a: int = Field(ge=1)) -> None:
        """Take."""

    assert signature_schema(take).schema["required"] == ["a"]


# --- JSON Schema ---------------------------------------------------------------------------------


@pytest.mark.spec("D12", "M19")
def test_arguments_described_by_a_schema_arrive_as_they_were_sent() -> None:
    properties = {
        "schema": {"type": "string"},
        "where": {"anyOf": [{"type": "object"}, {"type": "string"}]},
        "limit": {"type": "integer", "default": 10},
    }
    arguments = JsonArgumentSchema({"type": "object", "properties": properties})
    for given in ({}, {"schema": "x"}, {"where": {"a": 1}}, {"where": "a"}, {"limit": 3}):
        assert arguments.validate(given) == given, "no default, no null is added"
    assert "limit: None is not of type 'integer'" in problem(arguments, {"limit": None})
    assert "where: 3 is not valid" in problem(arguments, {"where": 3})


@pytest.mark.spec("A39")
def test_a_schema_that_is_silent_about_other_names_takes_none() -> None:
    properties = {"a": {"type": "object", "additionalProperties": False}, "b": {"type": "integer"}}
    silent = {"type": "object", "properties": properties}
    jsonschema.validate({"colour": 1}, silent)  # by itself it would take anything
    said = problem(JsonArgumentSchema(silent), {"colour": 1, "a": {"x": 1}, "b": "?"})
    assert "'colour' was unexpected" in said
    assert "a: " in said
    assert "b: " in said
    JsonArgumentSchema({**silent, "additionalProperties": True}).validate({"colour": 1})
    JsonArgumentSchema({"allOf": [silent]}).validate({"b": 1})


def test_a_schema_that_is_none_is_refused_when_it_is_given() -> None:
    for wrong in ({"type": "array"}, {"properties": 3}, {"type": "objekt"}):
        with pytest.raises(ConfigError, match="parameters"):
            JsonArgumentSchema(wrong)


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """A server that says that everything is fine: its address, and what it was asked for."""
    asked: list[str] = []

    class Fine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Fine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/fine.json", asked
        server.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore:Automatically retrieving:DeprecationWarning")
def test_a_reference_to_elsewhere_is_not_fetched(elsewhere: tuple[str, list[str]]) -> None:
    url, asked = elsewhere
    schema = {"type": "object", "properties": {"a": {"$ref": url}}}
    jsonschema.validate({"a": 1}, schema)
    assert asked == ["/fine.json"], "the library by itself asks"
    assert JsonArgumentSchema(schema).validate({"a": 1}) == {"a": 1}, "anything is right there"
    assert asked == ["/fine.json"]
