"""Schemas that refer to other parts of their document, however they name them."""

from __future__ import annotations

from typing import Any

import pytest

from ipyagent.errors import InvalidArgumentsError
from ipyagent.json_types import JsonDict
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.json_schemas import Converter, Limits, References

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
