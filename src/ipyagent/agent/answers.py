"""Answers as instances of a type, in the format that models get; the sources of their numbers.

Expectations of a cell are Python expressions that are to hold of its run. They see the variables
and the names of `_describe_run`, and change neither: what they assign stays theirs, and a variable
that they change inside goes back.
"""

from __future__ import annotations

import ast
import builtins
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from inspect import isroutine
from itertools import chain, starmap
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model

from ipyagent.agent.prompts import ANSWER_AGAIN
from ipyagent.agent.session.session import Session
from ipyagent.errors import ConfigError, name_and_text
from ipyagent.globs import text_pattern
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import Namespace
from ipyagent.llm.client import AnswerFormat
from ipyagent.numbers import TracedNumber, read_answer, trace_numbers
from ipyagent.plaintext import ellipsize, first_line, flatten
from ipyagent.schema import Expectation, Message, Role, Run, TextContent, ToolResultContent
from ipyagent.syntax import parse
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


_LENGTH = 200
"""Characters of a value in the explanation of what was found."""
_BEHIND = {"near": "numbers", "called": "calls"}
"""The name whose value explains what a function found."""
MOST = 10
"""Numbers of an answer that are expected of the next one."""


def parse_expectation(text: str) -> ast.expr:
    """Return the expression; raises ConfigError for what is not one."""
    try:
        body = parse(text.strip()).body
        if len(body) == 1 and isinstance(body[0], ast.Expr):
            return body[0].value
        raise SyntaxError("it is a statement")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"--expect {text}: this is not a Python expression: {error}") from None


def check_all(texts: Iterable[str], run: Run, namespace: Namespace) -> tuple[Expectation, ...]:
    """Return the expectations with what was found; on the main thread."""
    return tuple(_check(text, run, namespace) for text in texts)


def suggest(run: Run, namespace: Namespace) -> list[str]:
    """Return expectations that hold of a run: its numbers, calls, variables, files and value."""
    numbers = dict.fromkeys((value, step) for value, step, _ in read_answer(run.output))
    texts = [f"near({_write_number(*each)})" for each in list(numbers)[:MOST]]
    done = (each.call.name for each in run.executions if each.result and each.result.success)
    texts += (f"called({name!r})" for name in done)
    texts += (f"{name!r} in variables" for name in _names_of_variables(run))
    texts += (f"{path!r} in files" for path in _paths(run))
    texts += [f"value == {run.value_text}"] if run.value_text else []
    found = check_all(dict.fromkeys(texts), run, namespace)
    return [each.text for each in found if not each.found]


def _write_number(value: float, step: float) -> str:
    """Return a number, and by how much another may differ that is rounded to it."""
    return f"{value:.15g}" if step == 1 else f"{value:.15g}, {step / 2:.15g}"


def _check(text: str, run: Run, namespace: Namespace) -> Expectation:
    from ipyagent.values.variables.checkpoint import VariableUndo  # most cells expect nothing
    from ipyagent.values.variables.snapshot import Snapshot

    before = Snapshot(namespace.variables(), text, namespace.undo_memory)
    found = _evaluate(text, {**namespace.variables(), **_describe_run(run, namespace)})
    if changes := before.checkpoint(namespace.variables()):
        VariableUndo(namespace).take_back(changes)
        found = f"it changes {', '.join(changes.names)}, and an expectation may only look"
    return Expectation(text=text, found=found)


def _describe_run(run: Run, namespace: Namespace) -> dict[str, object]:
    """Return the names that expectations use beside the variables."""
    numbers = list(read_answer(run.output))
    tokens = run.usage.total_tokens

    def near(number: float, tolerance: float = 0.0) -> bool:
        readings = (value * factor for value, _, unit in numbers for factor in (1.0, *unit))
        most = tolerance * (1 + 1e-9)
        return any(math.isclose(each, number, rel_tol=1e-9, abs_tol=most) for each in readings)

    def count_calls(name: str, **arguments: object) -> int:
        calls = (e.call for e in run.executions if _is_like(e.call.name, name))
        return sum(
            all(_is_like(call.arguments.get(key, ...), value) for key, value in arguments.items())
            for call in calls
        )

    return {
        "answer": run.output,
        "value": run.value,
        "numbers": [value for value, _, _ in numbers],
        "near": near,
        "calls": [each.call.name for each in run.executions],
        "called": count_calls,
        "variables": list(_names_of_variables(run)),
        "files": list(_paths(run)),
        "steps": len(run.steps),
        "tokens": tokens,
        # Without a known price no limit holds.
        "cost": run.cost_usd if run.cost_usd is not None else math.nan if tokens else 0.0,
        "run": run,
        "namespace": dict(namespace.variables()),
    }


def _is_like(value: object, wanted: object) -> bool:
    """Return whether an argument is as expected; in texts `*` is any text."""
    if isinstance(value, str) and isinstance(wanted, str):
        return text_pattern(wanted, classes=False).match(value) is not None or value == wanted
    return value == wanted


def _names_of_variables(run: Run) -> Iterator[str]:
    """Yield the variables that the run made or changed, and did not delete again."""
    last = {each.name: each.change for each in run.variables}
    yield from (name for name, change in last.items() if change != "deleted")


def _paths(run: Run) -> Iterator[str]:
    """Yield the files that the run made or changed, and did not delete again."""
    last = {each.path: each.after for result in run.results for each in result.files}
    yield from (path for path, content in last.items() if content is not None)


def _evaluate(text: str, scope: dict[str, object]) -> str:
    """Return why an expression does not hold; "" if it does."""
    try:
        tree = parse_expectation(text)
        value = _run(tree, scope)
        return "" if value else _explain(tree, scope) or f"it is {_cite(value)}"
    except Exception as error:
        return ellipsize(flatten(name_and_text(error)), _LENGTH)


def _run(tree: ast.expr, scope: dict[str, object]) -> object:
    whole = ast.fix_missing_locations(ast.Expression(tree))
    return eval(compile(whole, "<expectation>", "eval"), scope)  # noqa: S307 - the user's own code


def _explain(tree: ast.expr, scope: dict[str, object]) -> str:
    """Return the values of the parts of an expression that does not hold."""
    found = dict[str, str]()
    for part in _list_parts(tree):
        with suppress(Exception):
            value = _run(part, scope)
            if not (callable(value) or isinstance(value, ModuleType)):
                found[ast.unparse(part)] = _cite(value)
    return "; ".join(f"{part} = {value}" for part, value in found.items() if part != value)


def _list_parts(tree: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts whose values explain why an expression does not hold."""
    match tree:
        case ast.BoolOp(values=parts):
            for each in parts:
                yield from _list_parts(each)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            yield from _list_parts(part)
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)
        case _:
            names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
            own = {each.id for each in names if isinstance(each.ctx, ast.Store)}
            for name in (each.id for each in names if each.id not in own):
                yield ast.Name(_BEHIND.get(name, name), ast.Load())


def _cite(value: object) -> str:
    return ellipsize(flatten(write_value(value)), _LENGTH)
