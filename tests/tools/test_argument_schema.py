"""Arguments: types and JSON Schemas, references in these, and control characters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from harness import YES, Lab, call
from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.json_types import JsonDict
from ipyagent.schema import ToolStatus
from ipyagent.tools.argument_schema import (
    JsonArgumentSchema,
    TypedArgumentSchema,
    check_control_characters,
    signature_schema,
)
from ipyagent.tools.base import tool
from ipyagent.tools.json_schemas import Converter, Limits, References


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


NUMBER = {"type": "integer"}
KIDS = {"type": "array", "items": {"$dynamicRef": "#node"}}
PART = {"type": "object", "properties": {"z": {"$ref": "#/$defs/q"}}, "$defs": {"q": NUMBER}}

# The schema of the argument `p`, the rest of the schema; a right value and a wrong one.
REFERRING: list[tuple[JsonDict, JsonDict, Any, Any]] = [
    ({"$ref": "#n"}, {"$defs": {"x": {"$anchor": "n", **NUMBER}}}, 1, "x"),
    ({"$dynamicRef": "#n"}, {"$defs": {"x": {"$dynamicAnchor": "n", **NUMBER}}}, 1, "x"),
    ({"$dynamicAnchor": "node", "type": "object", "properties": {"v": NUMBER, "kids": KIDS}}, {},
     {"kids": [{"v": 1}]}, {"kids": [{"v": "x"}]}),
    ({"$recursiveRef": "#"}, {}, {"p": {"p": {}}}, {"p": 1}),
    ({"$ref": "s.json#/$defs/q"}, {"$id": "https://a.example/s.json", "$defs": {"q": NUMBER}},
     1, "x"),
    ({"$ref": "/t.json"},
     {"$id": "https://a.example/s.json", "$defs": {"q": {"$id": "t.json", **NUMBER}}}, 1, "x"),
    ({"$ref": "urn:q"}, {"$defs": {"q": {"$id": "urn:q", **NUMBER}}}, 1, "x"),
    (PART, {}, {"z": 1}, {"z": "x"}),  # a schema of pydantic, put into another one
    ({"$id": "https://a.example/p", **PART}, {}, {"z": 1}, {"z": "x"}),
    ({"$ref": "#/$defs/a/properties/b"},
     {"$defs": {"a": {"$ref": "#/$defs/c"}, "c": {"properties": {"b": NUMBER}}}}, 1, "x"),
]  # fmt: skip


def test_references_of_every_kind_are_followed() -> None:
    for node, more, right, wrong in REFERRING:
        schema = {"type": "object", "properties": {"p": node}, **more}
        arguments = JsonArgumentSchema(schema)
        assert "integer" in str(arguments.schema) or "$recursiveRef" in node, node
        arguments.validate({"p": right})
        with pytest.raises(InvalidArgumentsError):
            arguments.validate({"p": wrong})


@pytest.mark.parametrize(
    "reference", ["#none", "#/$defs/none", "#/$defs/a/b", "other.json", "http://[", "urn:x#y", 5]
)
def test_a_reference_that_leads_nowhere_describes_anything(reference: Any) -> None:
    node = {"$ref": reference}
    schema = {"properties": {"p": node}, "$defs": {"a": {"$ref": "#/$defs/a/b"}}}
    JsonArgumentSchema(schema).validate({"p": 1})
    references = References(schema)
    assert references.follow(node) is None
    assert (references.external is None) == str(reference).startswith("#")


def test_of_many_choices_some_are_told() -> None:
    schema = {"enum": [f"v{number}" for number in range(300)]}
    told = Converter(References(schema), Limits(5, 5, 100, choices=100)).convert(schema)
    assert told["type"] == "string"
    assert told["description"].startswith('(enum: ["v0", "v1", ')


class Counting(References):
    """Counts how often a target is looked up."""

    count = 0

    def look_up(self, reference: object, depth: int = 0) -> object:
        self.count += 1
        return super().look_up(reference, depth)


def test_references_that_lead_through_each_other_to_nothing_are_soon_given_up() -> None:
    nowhere = {"$ref": "#/$defs/a/b"}
    references = Counting({"properties": {f"p{i}": {"$defs": nowhere} for i in range(100)}})
    assert references.resolve(nowhere) == (None, ())
    assert references.count < 100


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
CONTROLS += ["\u2028", "\u2029"]

PLACES: dict[str, Any] = {
    "code": lambda text: call("run_python", code=text),
    "command": lambda text: call("run_shell", command=text),
    "script": lambda text: call("python_script", action="run", content=text),
    "file": lambda text: call("write_file", path="a.py", content=text),
    "path": lambda text: call("write_file", path=text, content="x"),
    "old text": lambda text: call("edit_file", path="a.py", old_string=text, new_string="x"),
    "new text": lambda text: call("edit_file", path="a.py", old_string="x", new_string=text),
    "deleted path": lambda text: call("delete_file", path=text),
    "read path": lambda text: call("read_file", path=text),
    "cell": lambda text: call("insert_cell", source=text, path="a.ipynb"),
    "note": lambda text: call("record_note", content=text),
}


@pytest.mark.spec("P35", "D6")
@pytest.mark.parametrize("place", PLACES)
def test_no_control_character_reaches_the_user_or_the_tool(place: str, tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    lab = Lab(tmp_path)
    calls = [PLACES[place](f"one = 1{control}two = 2") for control in CONTROLS]
    settings = {"tools": {"shell": True}, "workspace": {"allow_delete": True}}
    run = lab.run([{"calls": calls}, "I see."], answer=YES, settings=settings)
    assert lab.watcher.asked == []
    for control, execution in zip(CONTROLS, run.executions, strict=True):
        assert execution.status is ToolStatus.FAILED
        error = execution.result.error if execution.result else ""
        assert f"U+{ord(control):04X}" in str(error)
        assert "line 1, column 8" in str(error)
    assert not {"one", "two"} & {*lab.variables}
    after = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert after == before


def test_lines_end_with_a_newline_alone_or_after_a_return(lab: Lab):
    code = "one = 1\r\nif one:\r\n\ttwo = 2\n"
    run = lab.run([{"calls": [call("run_python", code=code)]}, "Done."], answer=YES)
    assert run.executions[0].status is ToolStatus.SUCCESS
    assert lab.variables["two"] == 2


def test_a_plan_with_a_control_character_is_not_put_to_the_user(lab: Lab):
    hidden = {"calls": [call("run_python", code="evil = 1\rprint('ok')")]}
    run = lab.run([hidden, "I cannot plan that."], plan=True, answer=YES)
    assert lab.watcher.asked == []
    assert "U+000D" in str(run.executions[0].result and run.executions[0].result.error)
    assert "evil" not in lab.variables


def test_a_tool_of_the_user_takes_what_it_declares_and_has_its_code_checked(lab: Lab):
    @tool(sensitive=True)
    def send_keys(keys: str) -> str:
        """Send keys to a device."""
        return repr(keys)

    @tool(sensitive=True, command="statement")
    def query(statement: str) -> str:
        """Run SQL."""
        return statement

    calls = [call("send_keys", keys="\x1b[A"), call("query", statement="select 1 --\rdrop table a")]
    run = lab.run([{"calls": calls}, "Done."], tools=[send_keys, query], answer=YES)
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS, ToolStatus.FAILED]
    assert len(lab.watcher.asked) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"code": "a\nbc\x1b[2K"}, "code holds the control character U+001B at line 2, "),
        ({"code": "a\r\n\tb\rc"}, "U+000D at line 2, column 3"),
        ({"a": [{"b": "\x9d"}]}, "a[0].b holds the control character U+009D at line 1, column 1"),
        ({"a": {"b\x00": 1}}, "a name in a holds the control character U+0000 at"),
        ({"code": "print('\x7f')"}, r"write the escape sequence \x7f instead"),
        ({"code": "a\x0cb"}, r"write the escape sequence \x0c instead"),
    ],
)
def test_the_model_is_told_which_character_where_and_what_to_write(
    arguments: dict[str, Any], told: str
):
    with pytest.raises(InvalidArgumentsError) as refused:
        check_control_characters(arguments)
    assert told in str(refused.value)
