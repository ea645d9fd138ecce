"""Answers as instances of a type, in the format that models get; the sources of their numbers."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from inspect import isroutine
from itertools import chain, starmap
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model

from ipyagent.agent.prompts import ANSWER_AGAIN
from ipyagent.agent.session.session import Session
from ipyagent.errors import ConfigError, name_and_text
from ipyagent.json_types import JsonDict
from ipyagent.llm.client import AnswerFormat
from ipyagent.numbers import TracedNumber, trace_numbers
from ipyagent.plaintext import ellipsize, first_line
from ipyagent.schema import Message, Role, Run, TextContent, ToolResultContent
from ipyagent.tools.argument_schema import ClosedSchema, WireSchema

MOST_AGAIN = 2
"""How often a model is asked again for an answer that is not of the type."""

_FENCED = re.compile(r"\s*```\w*\n(.*?)\n?\s*```\s*", re.DOTALL)
_LONGEST = 2_000
"""Characters of a value as Python writes it, and of a problem."""


class AnswerType:
    """A type that pydantic can check: a model, dataclass, TypedDict, Literal, Enum, `list[int]`…

    Services take objects only, so what is not one is the `value` of one. Raises ConfigError for
    what is not a type, or cannot be written as JSON.
    """

    def __init__(self, given: Any) -> None:
        self.name = given.__name__ if isinstance(given, type) else str(given)
        try:
            if isinstance(given, str) or isroutine(given):
                raise TypeError(f"this is a {type(given).__name__}, not a type")
            self._types = self._own = TypeAdapter[Any](given)
            schema = self._describe()
            self._is_wrapped = not schema
            if self._is_wrapped:
                self._types = TypeAdapter(create_model("Answer", value=(given, ...)))
                schema = self._describe()
        except Exception as error:  # of the user's own classes, too
            raise ConfigError(
                f"an answer cannot be {self.name}: {first_line(str(error))}"
            ) from None
        # In strict mode each object names all that it may hold.
        text = json.dumps(schema)
        is_strict = text.count('"object"') == text.count('"additionalProperties": false')
        self.format = AnswerFormat(schema, is_strict)

    @classmethod
    def find(cls, name: str, variables: Mapping[str, object]) -> AnswerType:
        """Return the type of that name, of the user's or built in; raises ConfigError."""
        if (given := variables.get(name, getattr(builtins, name, None))) is None:
            raise ConfigError(f"--result needs the name of a type, and there is no {name!r}")
        return cls(given)

    def ask_again(self, problem: str) -> str:
        """Return the request for another answer."""
        return ANSWER_AGAIN.format(problem=problem, schema=json.dumps(self.format.schema))

    def read(self, text: str, *, is_cut: bool = False) -> object:
        """Return the answer that a text is; raises ValueError with the problem."""
        text = check_text(text, is_cut=is_cut)
        fenced = _FENCED.fullmatch(text)
        try:
            value = self._types.validate_json(fenced[1] if fenced else text)
        except ValidationError as error:
            found = ((".".join(map(str, each["loc"])), each["msg"]) for each in error.errors())
            problems = "; ".join(": ".join(filter(None, each)) for each in found)
            raise ValueError(ellipsize(problems, _LONGEST)) from None
        except Exception as error:  # of the user's own validators
            raise ValueError(ellipsize(name_and_text(error), _LONGEST)) from None
        return value.value if self._is_wrapped else value

    def to_row(self, value: object) -> JsonDict:
        """Return an answer as a row of a table: the fields of an object, or `value`."""
        plain = self._own.dump_python(value)
        row = {"value": plain} if self._is_wrapped else plain
        return {name: each.value if isinstance(each, Enum) else each for name, each in row.items()}

    def _describe(self) -> JsonDict:
        """Return the schema for the wire; {} for what is not an object with plain names."""
        described = self._types.json_schema(schema_generator=ClosedSchema)
        names = described.get("properties", {})
        schema = WireSchema(described).schema if names else {}
        return _require_all(schema) if names.keys() == schema.get("properties", {}).keys() else {}


def check_text(text: str, *, is_cut: bool = False) -> str:
    """Return an answer that is a text; raises ValueError if it is cut or empty."""
    if is_cut:
        raise ValueError("it was cut at the limit of length; give a shorter one")
    if not text.strip():
        raise ValueError("it is empty")
    return text


def write_value(value: object) -> str:
    """Return a value as Python writes it, cut if it is long."""
    try:
        return ellipsize(repr(value), _LONGEST)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"


def _require_all(schema: JsonDict) -> JsonDict:
    """Return a schema whose objects have all their properties, as OpenAI's strict mode wants it."""
    new = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in new:
        new["properties"] = {name: _require_all(each) for name, each in new["properties"].items()}
        new |= {"required": [*new["properties"]], "additionalProperties": False}
    for key in ("items", "additionalProperties"):
        if isinstance(new.get(key), dict):
            new[key] = _require_all(new[key])
    if "anyOf" in new:
        new["anyOf"] = [*map(_require_all, new["anyOf"])]
    return new


_NOTED = ("todo_write", "record_note")
"""Tools that return what they were given."""

_RUNS = 8
"""Earlier runs whose calls are looked at one by one."""
_EARLIER = 200_000
"""Characters of earlier turns in which the numbers of an answer are looked up: about 20 ms."""


def trace_answer(run: Run, session: Session) -> tuple[TracedNumber, ...]:
    """Look up the numbers of an answer in what the model has read, in its run and before that."""
    return _trace(run.output, run, session)


def find_invented(text: str, run: Run, session: Session) -> frozenset[str]:
    """Return the numbers of a text that a model took from nothing that it has read."""
    return frozenset(n.text for n in _trace(text, run, session) if n.trace == "not found")


def _trace(text: str, run: Run, session: Session) -> tuple[TracedNumber, ...]:
    """Look up numbers, without those that a model made up, in what was read."""
    if not re.search(r"\d", text):
        return ()
    runs = (run, *session.runs[-_RUNS:])
    invented = {"": session.invented, **dict(chain(*map(_list_invented, runs)))}

    def hide(source: str, text: str) -> tuple[str, str]:
        for each in invented.get(source, ()):
            text = re.sub(rf"(?<![\d.,]){re.escape(each)}(?!\d)", "…", text)
        return source, text

    before = starmap(hide, _list_texts_before(run, session))
    return tuple(trace_numbers(text, [*starmap(hide, run.texts_read)], before))


def _list_invented(run: Run) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield calls with the numbers in their results that no result gave to the model."""
    for call, result in ((each.call, each.result) for each in run.executions if each.result):
        if call.name in _NOTED:
            yield call.id, frozenset(re.findall(r"[\d.,]*\d", result.text_for_model))
        elif result.child and isinstance(part := result.value, Run):
            yield call.id, frozenset(n.text for n in part.numbers if n.trace == "not found")


def _list_texts_before(run: Run, session: Session) -> Iterator[tuple[str, str]]:
    """Yield what the model had read before a run, the newest first, and had derived from it."""
    derived = (n.text for each in session.runs[-_RUNS:] for n in each.numbers if n.formula)
    yield "", "\n".join(derived)
    length = 0
    for node in reversed(session.graph.ancestors(*session.conversation.heads)):
        message = node.data
        is_own = node.id.startswith(f"{run.id}-") or length > _EARLIER
        if is_own or not isinstance(message, Message) or message.role is not Role.USER:
            continue
        for block in message.content:
            if isinstance(block, ToolResultContent):
                yield block.tool_use_id, block.text
                length += len(block.text)
            # A summary is the model's own, and requests to check numbers name wrong ones.
            elif isinstance(block, TextContent) and (
                not message.synthetic or block.text.startswith("<context>")
            ):
                yield "", block.text
                length += len(block.text)
