"""Schemas of arguments as services get them, and calls under the schemas' own names."""

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.schema import ToolDefinition
from ipyagent.tools.argument_schema import JsonArgumentSchema, WireSchema
from ipyagent.tools.base import BaseTool, Tool, Toolbox, tool
from service_rules import broken_rules

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}

Given = dict[str, Any]


def arguments_of(schema: Any) -> JsonArgumentSchema:
    """Return arguments whose schema every service takes."""
    arguments = JsonArgumentSchema(schema)
    definition = ToolDefinition(name="x", input_schema=arguments.schema)
    assert broken_rules(definition) == [], json.dumps(arguments.schema)
    return arguments


def refuses(arguments: JsonArgumentSchema, given: Given) -> bool:
    try:
        arguments.validate(given)
    except InvalidArgumentsError:
        return True
    return False


def top(**more: Any) -> dict[str, Any]:
    return {"type": "object", **more}


ROUTE_OR_FILE = {"route": TEXT, "file": TEXT}
TREE = top(properties={"v": NUMBER, "kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}})
BY_KIND = [
    {"properties": {"kind": {"const": "a"}, "x": TEXT}, "required": ["kind", "x"]},
    {"properties": {"kind": {"enum": ["b", "c"]}, "y": TEXT}, "required": ["kind", "y"]},
]

# A schema; the words about it; calls that are fine; calls that are not.
COMBINED: dict[str, tuple[Any, str, list[Given], list[Given]]] = {
    "anyOf of required": (
        top(properties=ROUTE_OR_FILE, anyOf=[{"required": ["route"]}, {"required": ["file"]}]),
        'Also: {"anyOf": [{"required": ["route"]}, {"required": ["file"]}]}',
        [{"route": "a"}, {"file": "a"}, {"route": "a", "file": "b"}],
        [{}, {"route": 1}, {"route": "a", "more": 1}],
    ),
    "oneOf of required": (
        top(properties=ROUTE_OR_FILE, oneOf=[{"required": ["route"]}, {"required": ["file"]}]),
        'Also: {"oneOf": [{"required": ["route"]}, {"required": ["file"]}]}',
        [{"route": "a"}],
        [{}, {"route": "a", "file": "b"}],
    ),
    "oneOf with properties": (
        top(oneOf=BY_KIND),
        f'{{"oneOf": {json.dumps(BY_KIND)}}}',
        [{"kind": "a", "x": "1"}, {"kind": "c", "y": "1"}],
        [{"kind": "a"}, {"kind": "d", "x": "1"}, {"kind": "a", "x": "1", "z": 1}],
    ),
    "oneOf of references": (
        {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
         "$defs": {"A": BY_KIND[0], "B": BY_KIND[1]}},
        f'{{"oneOf": {json.dumps(BY_KIND)}}}',
        [{"kind": "a", "x": "1"}],
        [{"x": "1"}],
    ),
    "allOf": (
        {"allOf": [{"$ref": "#/$defs/T"}, top(properties={"b": TEXT}, required=["b"])],
         "$defs": {"T": TREE}},
        "",
        [{"b": "x", "v": 1, "kids": [{"kids": [{"v": 2}]}]}],
        [{"v": 1}, {"b": "x", "v": "1"}, {"b": "x", "kids": [{"kids": [{"v": "2"}]}]}],
    ),
    "allOf, in which there is an anyOf": (
        {"allOf": [top(properties=ROUTE_OR_FILE),
                   {"anyOf": [{"required": ["route"]}, {"required": ["file"]}]}]},
        '{"anyOf": [{"required": ["route"]}, {"required": ["file"]}]}',
        [{"file": "a"}],
        [{}],
    ),
    "anyOf with null": (
        {"anyOf": [top(properties={"a": TEXT}, required=["a"]), {"type": "null"}]},
        "",
        [{"a": "x"}],
        [{}, {"a": 1}],
    ),
    "not": (
        top(properties=ROUTE_OR_FILE, **{"not": {"required": ["route", "file"]}}),
        '{"not": {"required": ["route", "file"]}}',
        [{}, {"file": "a"}],
        [{"route": "a", "file": "b"}],
    ),
    "if": (
        top(properties={"mode": TEXT}, **{
            "if": {"properties": {"mode": {"const": "at"}}, "required": ["mode"]},
            "then": {"properties": {"line": NUMBER}, "required": ["line"]},
            "else": {"required": ["mode"]},
        }),
        '{"if": {"properties": {"mode": {"const": "at"}}, "required": ["mode"]}, '
        '"then": {"properties": {"line": {"type": "integer"}}, "required": ["line"]}, "else": ',
        [{"mode": "at", "line": 1}, {"mode": "end"}],
        [{"mode": "at"}, {}],
    ),
    "a dependency": (
        top(properties={"a": TEXT, "b": TEXT}, dependentRequired={"a": ["b"]}),
        '{"dependentRequired": {"a": ["b"]}}',
        [{"b": "1"}, {"a": "1", "b": "1"}],
        [{"a": "1"}],
    ),
    "a dependent schema": (
        top(properties={"a": TEXT}, dependentSchemas={
            "a": {"properties": {"b": NUMBER}, "required": ["b"]}}),
        '{"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}, "required": ["b"]',
        [{"b": 1}, {"a": "1", "b": 1}],
        [{"a": "1"}, {"a": "1", "b": "1"}],
    ),
    "enum": (
        top(properties={"a": NUMBER}, enum=[{"a": 1}, {"a": 2}]),
        '{"enum": [{"a": 1}, {"a": 2}]}',
        [{"a": 1}],
        [{"a": 3}],
    ),
    "required inside": (
        top(properties={"f": top(properties=ROUTE_OR_FILE,
                                 oneOf=[{"required": ["route"]}, {"required": ["file"]}])}),
        "",
        [{"f": {"route": "a"}}],
        [{"f": {}}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COMBINED)
def test_combinations_are_words_and_are_still_checked(case: str) -> None:
    schema, words, good, bad = COMBINED[case]
    arguments = arguments_of(schema)
    assert words in arguments.conditions
    offered = {name for each in good for name in each}
    assert offered <= arguments.schema["properties"].keys()
    assert [arguments.validate(each) for each in good] == good
    assert [each for each in bad if not refuses(arguments, each)] == []


def argument(given: Any, **defs: Any) -> Any:
    """Return an argument as it is sent."""
    whole = top(properties={"a": given}, **({"$defs": defs} if defs else {}))
    return arguments_of(whole).schema["properties"]["a"]


def test_parts_that_all_hold_are_one_schema_also_deep_down() -> None:
    """Gemini takes no `allOf`, in which pydantic 1 and others put what has a description."""
    kind = {"type": "string", "enum": ["x", "y"], "default": "x", "description": "A kind."}
    by_reference = [{"$ref": "#/$defs/K"}]
    sent = argument({"allOf": by_reference, "description": "Mine.", "default": "y"}, K=kind)
    assert sent == kind | {"description": "Mine.", "default": "y"}
    assert argument({"allOf": by_reference}, K=kind) == kind
    parts = [top(properties={"b": TEXT}, required=["b"]), top(properties={"c": NUMBER})]
    joined = top(properties={"b": TEXT, "c": NUMBER}, required=["b"])
    assert argument({"allOf": parts}) == joined
    listed = argument({"type": "array", "items": {"allOf": [{"allOf": parts}]}})
    assert listed == {"type": "array", "items": joined}
    apart = [{"enum": ["x", "y"]}, {"enum": ["y", "z"]}]
    assert argument({"type": "string", "allOf": apart}) == {
        "type": "string", "enum": ["x", "y"],
    }  # fmt: skip
    checked = arguments_of(top(properties={"a": {"type": "string", "allOf": apart}}))
    assert (refuses(checked, {"a": "y"}), refuses(checked, {"a": "x"})) == (False, True)


def test_the_words_stand_in_the_tools_description() -> None:
    class Navigate(BaseTool):
        name, description, parameters = "navigate", "Go.", COMBINED["anyOf of required"][0]

        def execute(self, **given: Any) -> Any:
            return given

    told = tool(Navigate()).definition().description
    assert told == 'Go.\n\nAlso: {"anyOf": [{"required": ["route"]}, {"required": ["file"]}]}'
    (form,) = arguments_of(COMBINED["required inside"][0]).schema["properties"].values()
    assert form["description"] == '(oneOf: [{"required": ["route"]}, {"required": ["file"]}])'


REFERRED: dict[str, tuple[Any, Given, Given]] = {
    "definitions": (
        {"$ref": "#/definitions/A", "definitions": {"A": top(properties={"a": TEXT})}},
        {"a": "x"}, {"a": 1},
    ),
    "$defs, through another": (
        {"$ref": "#/$defs/A",
         "$defs": {"A": {"$ref": "#/$defs/B"}, "B": top(properties={"a": TEXT})}},
        {"a": "x"}, {"b": 1},
    ),
    "with siblings": (
        {"$ref": "#/$defs/A", "properties": {"b": NUMBER}, "required": ["b"],
         "$defs": {"A": top(properties={"a": TEXT}, required=["a"])}},
        {"a": "x", "b": 1}, {"b": 1},
    ),
    "another pointer, with escapes": (
        top(properties={"a": {"$ref": "#/components/schemas/X~1Y%20Z/anyOf/1"}},
            components={"schemas": {"X/Y Z": {"anyOf": [TEXT, {"type": "int"}]}}}),
        {"a": 1}, {"a": "x"},
    ),
    "another property": (
        top(properties={"a": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
                        "b": {"$ref": "#/properties/a"}}),
        {"b": 2}, {"b": 1},
    ),
    "by its own $id": (
        top(**{"$id": "https://h/s", "properties": {"a": {"$ref": "https://h/s#/$defs/A"}},
               "$defs": {"A": NUMBER}}),
        {"a": 1}, {"a": "x"},
    ),
    "a tree": (
        top(properties={"root": {"$ref": "#/$defs/T"}}, **{"$defs": {"T": TREE}}),
        {"root": {"kids": [{"kids": [{"kids": []}]}]}},
        {"root": {"kids": [{"kids": [{"v": "x"}]}]}},
    ),
    "the whole": (
        top(properties={"v": NUMBER, "sub": {"$ref": "#"}}),
        {"sub": {"sub": {"v": 1}}}, {"sub": {"sub": {"v": "x"}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFERRED)
def test_references_are_resolved_for_the_wire_and_for_the_check(case: str) -> None:
    schema, good, bad = REFERRED[case]
    arguments = arguments_of(schema)
    assert good.keys() <= arguments.schema["properties"].keys()
    assert arguments.validate(good) == good
    assert refuses(arguments, bad)


# An empty schema is refused by some services, and is an object for llama.cpp.
ITEM = {"type": ["string", "number", "boolean", "object", "null"]}
ANY = {"type": [*ITEM["type"], "array"], "items": ITEM}


@pytest.mark.parametrize(
    ("given", "told", "good", "bad"),
    [
        ({"type": "array"}, {"type": "array", "items": ITEM}, [1], 1),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": ITEM}, None, "x"),
        ({"type": "array", "items": None}, {"type": "array", "items": ITEM}, [1], 1),
        ({"type": "array", "items": True}, {"type": "array", "items": ITEM}, [1], 1),
        ({"type": "array", "items": [TEXT, TEXT]}, {"type": "array", "items": TEXT}, ["a"], [1]),
        ({"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
         {"type": "array", "items": {"anyOf": [TEXT, NUMBER], "description": "in this order"}},
         ["a", 1], ["a", 1, 2]),
        ({"type": "array", "prefixItems": [NUMBER], "minItems": 1},
         {"type": "array", "items": NUMBER, "minItems": 1}, [1, "x"], ["x"]),
        ({"additionalProperties": {"type": "array"}, "type": "object"},
         {"type": "object", "additionalProperties": {"type": "array", "items": ITEM}},
         {"k": [1]}, {"k": 1}),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]},
         {"anyOf": [{"type": "array", "items": ITEM}, {"type": "null"}]}, [1], "x"),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True},
         {"type": "integer", "exclusiveMinimum": 0}, 1, 0),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": True},
         {"type": "integer", "exclusiveMaximum": 9}, 8, 9),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": False},
         {"type": "integer", "minimum": 0}, 0, -1),
        ({"type": "integer", "exclusiveMaximum": True}, NUMBER, 8, "x"),
        ({"type": "any"}, ANY, {"a": 1}, ...),
        ({"type": ["any", "string"]}, ANY, 1, ...),
        ({"type": "float", "minimum": "0"}, {"type": "number"}, 1.5, "x"),
        ({"type": "STRING"}, TEXT, "a", 1),
        ({"type": ["Int", "none"]}, {"type": ["integer", "null"]}, None, "x"),
        ({"type": "dict"}, {"type": "object"}, {"a": 1}, 1),
        ({"type": "list"}, {"type": "array", "items": ITEM}, [1], 1),
        ({"type": "integer", "nullable": True}, {"type": ["integer", "null"]}, None, "x"),
        ({"anyOf": [NUMBER], "nullable": True},
         {"anyOf": [{"anyOf": [NUMBER]}, {"type": "null"}]}, None, "x"),
        ({"type": "string", "default": None}, TEXT, "a", None),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}, "x", "y"),
        ({"description": "An object"}, {"description": "An object", **ANY}, {"a": [[1]]}, ...),
        ({"items": TEXT}, {"type": "array", "items": TEXT}, ["a"], [1]),
        ({"type": "array", "items": {"type": "array"}},
         {"type": "array", "items": {"type": "array", "items": ITEM}}, [[[1]]], [1]),
        ({"type": "object", "additionalProperties": {}},
         {"type": "object", "additionalProperties": True}, {"a": [1]}, 1),
        ({"anyOf": [{}, TEXT]}, {"anyOf": [ANY, TEXT]}, 1, ...),
        ({"enum": []}, ANY, "x", ...),
        ({"enum": "a"}, ANY, "x", ...),
        ({"enum": ["a", "a", 1, True, None]},
         {"enum": ["a", 1, True, None], "type": ["string", "integer", "boolean", "null"]},
         None, "b"),
        ({"type": "string", "enum": ["a"], "nullable": True},
         {"enum": ["a", None], "type": ["string", "null"]}, None, "b"),
        ({"enum": [{"a": 1}, {"a": 2}]},
         {"type": "object", "description": '(enum: [{"a": 1}, {"a": 2}])'}, {"a": 1}, {"a": 3}),
        ({"type": "array", "items": NUMBER, "enum": [[1, 2], [3, 4]]},
         {"type": "array", "items": NUMBER, "description": "(enum: [[1, 2], [3, 4]])"},
         [1, 2], [1, 3]),
        ({"enum": [[1], "a"]}, {"type": ["array", "string"], "items": ITEM,
                                "description": '(enum: [[1], "a"])'}, "a", [2]),
        ({"type": "object", "const": {"a": 1}},
         {"type": "object", "description": '(const: {"a": 1})'}, {"a": 1}, {}),
        ("string", TEXT, "a", 1),
        (["string", "null"], {"type": ["string", "null"]}, None, 1),
        (True, ANY, 1, ...),
        (None, ANY, 1, ...),
        ({"type": "string", "format": 5, "description": ["x"], "maxLength": -1}, TEXT, "a", 1),
        ({"type": "string", "examples": ["a", "b"], "example": "c"},
         {"type": "string", "description": '(examples: ["a", "b"])'}, "a", 1),
        ({"type": "object", "propertyNames": {"enum": ["k"]}}, {"type": "object"},
         {"k": 1}, {"x": 1}),
        ({"$ref": {"a": 1}}, ANY, 1, ...),
        ({"type": "string", "not": 3, "if": None, "else": 7}, TEXT, "a", 1),
        ({"type": "string", "contains": 3, "allOf": [], "properties": None}, TEXT, "a", 1),
        ({"type": "integer", "not": {"enum": [3]}},
         {"type": "integer", "description": '(not: {"enum": [3]})'}, 1, 3),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a", "b", 3]},
         {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
         {"a": "x", "b": 1}, {"a": "x"}),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}},
         {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, {"a": "x"}, {}),
        ({"type": "string", "pattern": "^a+$"},
         {"type": "string", "description": '(pattern: "^a+$")'}, "aa", ...),
    ],
)  # fmt: skip
def test_an_argument_is_told_in_plain_words_of_the_newest_draft(
    given: Any, told: Any, good: Any, bad: Any
) -> None:
    arguments = arguments_of(top(properties={"x": given}))
    assert arguments.schema == {"type": "object", "properties": {"x": told}}
    assert arguments.validate({"x": good}) == {"x": good}
    assert bad is ... or refuses(arguments, {"x": bad})


@pytest.mark.parametrize(
    ("schema", "required"),
    [
        ({}, []),
        ({"properties": None, "required": None}, []),
        ({"type": ["object", "null"], "required": "a"}, ["a"]),
        ({"type": "object", "required": ["a"]}, ["a"]),
        ({"type": "any", "properties": {"a": {"required": True}, "b": {"required": "no"}}}, ["a"]),
        ({"type": "object", "properties": {"b": True}, "required": ["a"],
          "additionalProperties": False}, ["a"]),
    ],
)  # fmt: skip
def test_the_top_is_an_object_with_all_that_it_requires(schema: Given, required: list[str]) -> None:
    arguments = arguments_of(schema)
    assert arguments.schema.get("required", []) == required
    assert arguments.validate(dict.fromkeys(required, 1)) == dict.fromkeys(required, 1)
    if required:
        assert refuses(arguments, {})


def test_other_arguments_are_told_if_there_may_be_any() -> None:
    numbers = arguments_of(top(additionalProperties={"type": "array", "items": {"type": "int"}}))
    told = {"type": "array", "items": NUMBER}
    assert numbers.schema == top(properties={}, additionalProperties=told)
    assert numbers.validate({"a": [1]}) == {"a": [1]}
    assert refuses(numbers, {"a": ["x"]})


def test_names_that_match_a_pattern_are_not_forbidden_on_the_wire() -> None:
    inner = {
        "type": "object",
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": False,
    }
    wire = WireSchema(inner | {"properties": {"labels": inner}}).schema
    assert wire["additionalProperties"] is True
    assert wire["properties"]["labels"]["additionalProperties"] is True
    closed = WireSchema({"type": "object", "additionalProperties": False}).schema
    assert closed["additionalProperties"] is False


def test_names_are_legal_at_the_top_and_come_back_as_they_were() -> None:
    """Only there do services check them; inside they are as the schema has them."""
    long = "x" * 80
    item = top(properties={"a b": TEXT, "ü": NUMBER}, required=["a b"])
    schema = top(
        properties={
            "StartTime<": TEXT, "StartTime>": TEXT, "StartTime_": TEXT, "": TEXT, long: TEXT,
            "list[]": {"type": "array", "items": item}, "free": {"type": "object"},
        },
        required=["StartTime<"],
        oneOf=[{"required": ["q<"], "properties": {"q<": NUMBER}}, {"required": ["list[]"]}],
    )  # fmt: skip
    arguments = arguments_of(schema)
    told = arguments.schema["properties"]
    assert list(told) == [
        "StartTime__2", "StartTime__3", "StartTime_", "_", "x" * 56, "list__", "free", "q_",
    ]  # fmt: skip
    assert arguments.schema["required"] == ["StartTime__2"]
    assert told["StartTime__2"]["description"] == "(its name there: StartTime<)"
    given = {
        "StartTime__2": "1", "StartTime__3": "2", "StartTime_": "3", "_": "4", "x" * 56: "5",
        "list__": [{"a b": "6", "ü": 7}], "free": {"a_b": {"StartTime__2": 12}},
    }  # fmt: skip
    sent = {
        "StartTime<": "1", "StartTime>": "2", "StartTime_": "3", "": "4", long: "5",
        "list[]": [{"a b": "6", "ü": 7}], "free": {"a_b": {"StartTime__2": 12}},
    }  # fmt: skip
    assert arguments.validate(given) == sent
    assert arguments.validate(sent) == sent, "a model may know the tool"
    assert refuses(arguments, {**given, "q_": 1})
    assert refuses(arguments, {**given, "list__": [{"ü": 7}]})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "type object"),
        ({"type": "object", "properties": {"x": {"type": "nonsense"}}}, "'nonsense' is not a type"),
        ({"type": "object", "properties": [1]}, "properties"),
        ({"$ref": "#/nowhere"}, "reference"),
        ({"$ref": "#"}, "reference"),
        ({"$ref": "https://example.org/schema.json"}, "reference"),
        ({"type": "object", "description": "y" * 200_000}, "has 200,037 characters"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        JsonArgumentSchema(schema)


@pytest.mark.parametrize("word", ["enum", "default", "const", "examples"])
def test_a_text_that_cannot_be_encoded_stays_away(word: str) -> None:
    value = ["\ud83d", "x"] if word in ("enum", "examples") else "\ud83d"
    arguments = arguments_of(top(properties={"a": {"type": "string", word: value}}))
    assert json.dumps(arguments.schema, ensure_ascii=False).encode()


def test_a_schema_that_holds_itself_or_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["x"] = schema
    with pytest.raises(ConfigError, match="nested too deeply"):
        JsonArgumentSchema(schema)
    del schema["properties"]["x"]
    for _ in range(20_000):
        schema = top(properties={"x": schema})
    with pytest.raises(ConfigError, match="nested too deeply"):
        JsonArgumentSchema(schema)


def test_large_and_doubling_schemas_stay_small() -> None:
    names = {n: {"$ref": "#/$defs/0"} for n in "abcdefgh"}
    doubling = {
        str(i): top(properties={n: {"$ref": f"#/$defs/{i + 1}"} for n in names}) for i in range(30)
    }
    for schema in (
        top(properties=names, **{"$defs": doubling}),
        {"allOf": [{"$ref": "#/$defs/0"}] * 2,
         "$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(40)}},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        top(properties={"x": {"not": {"$ref": "#/properties/x"}}}),
    ):  # fmt: skip
        arguments = arguments_of(schema)
        assert len(json.dumps(arguments.schema)) < 100_000
        arguments.validate({})
    slow = top(properties={"a b": names["a"], "c": TEXT}, required=["a b"])
    bomb = {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(40)}
    arguments = arguments_of({**slow, "$defs": bomb})
    assert arguments.validate({"a_b": 1}) == {"a b": 1}, "only the names are checked"
    assert refuses(arguments, {"c": "x"})
    assert refuses(arguments, {"a_b": 1, "d": 1})
    deep: dict[str, Any] = top()
    deep["properties"] = {"y": {"type": "nonsense"}}
    for _ in range(200):
        deep = top(properties={"x": deep})
    arguments = arguments_of(deep)
    assert len(json.dumps(arguments.schema)) < 1_000
    given: Given = {"y": 1}
    for _ in range(200):
        given = {"x": given}
    assert arguments.validate(given) == given, "only the names are checked"


def test_a_pattern_of_another_language_is_no_error() -> None:
    patterns = [r"^\p{L}+$", "a(?!b)", r"(.)\1", "[[:alpha:]]", "*", "("]
    for pattern in patterns:
        schema = top(
            properties={"x": {"type": "string", "pattern": pattern}},
            patternProperties={pattern: {"type": "integer"}},
        )
        arguments = arguments_of(schema)
        assert arguments.validate({"x": "a"}) == {"x": "a"}
        assert refuses(arguments, {"x": 1})

    checked = arguments_of(top(properties={"x": {"pattern": "^(a+)+$"}}))
    assert checked.validate({"x": "aaa"})
    with pytest.raises(InvalidArgumentsError, match="does not match"):
        checked.validate({"x": "a" * 10_000 + "b"})  # would take `re` for ever
    assert refuses(checked, {"x": "\ud83d"})


class Window(BaseModel):
    begin: Annotated[int, Field(alias="begin <")]
    parts: list["Window"] = []


def test_functions_of_the_user_have_the_same_form() -> None:
    @tool
    def plot(window: Window, pair: tuple[int, str], more: list | None = None) -> str:
        """Plot."""
        return f"{window.begin} {window.parts[0].begin} {pair}"

    assert broken_rules(plot.definition()) == []
    inner = {"begin <": 2}
    given = plot.check_arguments({"window": {"begin <": 1, "parts": [inner]}, "pair": [3, "x"]})
    assert plot(**given) == "1 2 (3, 'x')"

    class Tree(BaseTool):
        name, args_model = "tree", Window

        def execute(self, **given: Any) -> Any:
            return given

    tree = tool(Tree())
    assert broken_rules(tree.definition()) == []
    assert tree.check_arguments({"begin__": 1})["begin"] == 1


def test_a_bad_tool_of_a_cell_is_left_out_with_its_reason() -> None:
    class Bad(BaseTool):
        name, parameters = "bad", {"type": "object", "properties": {"x": {"type": "nonsense"}}}

        def execute(self, **given: Any) -> Any:
            return given

    @tool
    def good(x: int) -> int:
        """Return it."""
        return x

    box = Toolbox()
    box.add_from_cells([Bad(), good])
    assert [each.name for each in box] == ["good"]
    (notice,) = box.notices
    assert notice.startswith("Your tool 'bad' is left out, because parameters is not a JSON Schema")
    assert "'nonsense'" in notice
    assert isinstance(box.get("good"), Tool)


def test_long_bounds_are_words() -> None:
    long = {"type": "array", "items": {**TEXT, "maxLength": 2000}, "maxItems": 10_000}
    schema = arguments_of(top(properties={"a": long, "b": {**TEXT, "maxLength": 20}})).schema
    assert schema["properties"]["a"] == {
        "type": "array",
        "items": {**TEXT, "description": "(maxLength: 2000)"},
        "description": "(maxItems: 10000)",
    }
    assert schema["properties"]["b"] == {**TEXT, "maxLength": 20}


# Moonshot refuses each request with a tool that has the type beside its alternatives.
TYPED_BESIDE = [
    (
        {"type": "array", "items": {"type": "object", "properties": {"id": TEXT}, "anyOf": [
            {"required": ["id"]}, {"properties": {"name": TEXT}, "required": ["name"]}]}},
        {"type": "array", "items": {"properties": {"id": TEXT}, "anyOf": [
            {"type": "object"},
            {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}]}},
    ),
    (
        {"type": "string", "oneOf": [{"const": "day"}, {"const": "week", "title": "A week"}]},
        {"anyOf": [{"type": "string", "enum": ["day"]}, {"type": "string", "enum": ["week"]}]},
    ),
    (
        {"type": "string", "allOf": [{"anyOf": [{"minLength": 3}, {"const": "a"}]}]},
        {"anyOf": [{"type": "string", "minLength": 3}, {"type": "string", "enum": ["a"]}]},
    ),
    (
        {"type": ["string", "null"], "anyOf": [{"minLength": 3}, {"type": "null"}]},
        {"anyOf": [{"type": ["string", "null"], "minLength": 3}, {"type": "null"}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sent"), TYPED_BESIDE)
def test_each_alternative_has_its_type_and_choices_of_one_kind_have_theirs(
    given: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert arguments_of(top(properties={"a": given})).schema["properties"]["a"] == sent
