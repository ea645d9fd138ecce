"""Expectations of a cell: Python expressions that are to hold of its run.

They see the variables and the names of `_describe_run`, and change neither: what they assign stays
theirs, and a variable that they change inside goes back.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import ModuleType

from ipyagent.agent.answers import write_value
from ipyagent.errors import ConfigError, name_and_text
from ipyagent.globs import text_pattern
from ipyagent.kernel.namespace import Namespace
from ipyagent.numbers import read_answer
from ipyagent.plaintext import ellipsize, flatten
from ipyagent.schema import Expectation, Run

_LENGTH = 200
"""Characters of a value in the explanation of what was found."""
_BEHIND = {"near": "numbers", "called": "calls"}
"""The name whose value explains what a function found."""
MOST = 10
"""Numbers of an answer that are expected of the next one."""


def parse_expectation(text: str) -> ast.expr:
    """Return the expression; raises ConfigError for what is not one."""
    try:
        return ast.parse(text.strip(), mode="eval").body
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
