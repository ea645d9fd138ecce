"""A namespace that names the sources that code has read, and tells the model what it changed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from ipyagent.errors import AgentError
from ipyagent.kernel.namespace import Namespace, brief_line, is_data, take_snapshot
from ipyagent.kernel.outputs import Outputs
from ipyagent.plaintext import spell
from ipyagent.redaction import secrecy
from ipyagent.schema import ToolResult, VariableChange
from ipyagent.tools.static_analysis import UNKNOWN_EFFECTS, Effects
from ipyagent.tools.static_analysis.code import analyze_code
from ipyagent.values.describe.libraries import table_of
from ipyagent.values.describe.safe_inspect import one_line, type_name
from ipyagent.values.variables.reach import (
    Adoption,
    names_of_loops,
)

_TRIES = 5
_CHANGES = 10
"""Changed variables that the model is told of."""


def with_sources(result: ToolResult, sources: Iterable[str]) -> ToolResult:
    """Return the result labelled with these sources; none if empty."""
    return result.model_copy(update={"source": "\n".join(dict.fromkeys(sources))})


class TrackedNamespace:
    """Runs code; its result has the sources that it may have read, beside the user's variables."""

    def __init__(
        self, namespace: Namespace, description_of: Callable[[str], str] = lambda path: ""
    ) -> None:
        """`description_of` returns the description of a file that the model has, or ""."""
        self._namespace, self._description_of = namespace, description_of
        self.left: set[str] = set()
        """Names that were left on copies of the kernel."""

    def variables(self) -> Mapping[str, object]:
        """Return the user's variables by name."""
        return self._namespace.variables()

    def analyze(self, code: str) -> Effects:
        """Return what code would touch among the variables as they are now, from any thread."""
        from ipyagent.values.variables.snapshot import find_lasting  # most prompts run no code

        effects = self._analyze_text(code)
        with suppress(RuntimeError):  # a thread of the user's changes something meanwhile
            memory = self._namespace.undo_memory
            lasting = find_lasting(code, self.variables(), memory)
            effects = replace(effects, lasting=lasting)
        if UNKNOWN_EFFECTS in effects.touches or self._namespace.runs_as_written(code):
            return effects
        return replace(effects, touches={UNKNOWN_EFFECTS: "IPython makes other code of it"})

    def _analyze_text(self, code: str) -> Effects:
        for _ in range(_TRIES):
            try:
                return analyze_code(code, self.variables())
            except RuntimeError:  # a thread of the user's defines variables meanwhile
                continue
        return Effects({UNKNOWN_EFFECTS: "the variables change all the time"})

    def run(self, code: str, outputs: Outputs | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Run code; its result names the sources that it may have read."""
        effects = self.analyze(code)
        result = self._namespace.run(code, outputs)
        if inspect.isawaitable(result):
            return self._await_and_label(result, code, effects)
        return self._label_result(_add_lasting(result, effects), code, effects)

    def watch(self, function: object) -> Callable[[ToolResult], ToolResult]:
        """Return what adds to the result of a function which variables it changed since now."""
        before = take_snapshot(self._namespace, functions=[function])

        def add_changes(result: ToolResult) -> ToolResult:
            result = before.annotate(result, self.variables())
            return self._add_changes(result, "", Effects({}))

        return add_changes

    @property
    def plain(self) -> Namespace:
        """The namespace without labels."""
        return self._namespace

    def take_over(self, code: str, result: ToolResult, adoption: Adoption) -> ToolResult:
        """Bind names to the data that code made on a copy of the variables; label its result.

        Raises AgentError if one of the names is another's by now, and then changes none.
        """
        bindings = self._namespace.bindings()
        own = self._namespace.own.names(bindings)
        names = (*adoption.values, *adoption.gone)
        if taken := [name for name in names if name in bindings and name not in own]:
            raise AgentError(f"{taken[0]} is defined by now, so it was not replaced; run it again")
        effects = self.analyze(code)
        return self._label_result(self._namespace.take_over(result, adoption), code, effects)

    def _add_changes(self, result: ToolResult, code: str, effects: Effects) -> ToolResult:
        """Return the result that tells the model which variables are new or changed.

        An empty line parts them from what the code printed, which may be a table.
        """
        result = self._add_content(result)
        lines = list(self._describe_changes(result.variables, names_of_loops(code), effects.paths))
        if len(lines) > _CHANGES:
            lines[_CHANGES:] = [f"… and {len(lines) - _CHANGES} more"]
        if not lines:
            return result
        text = result.text_for_model
        changes = "\n".join(lines)
        text = f"{text.rstrip(chr(10))}\n\n{changes}" if text.strip() else changes
        return result.model_copy(update={"for_model": text})

    def _add_content(self, result: ToolResult) -> ToolResult:
        """Return the result with the content of the variables that it names, secrets left out."""
        if not result.variables:
            return result
        from ipyagent.values.variables.content import describe_content  # most prompts run no code

        variables, changes = self.variables(), list[VariableChange]()
        for each in result.variables:
            is_shown = each.name in variables and not secrecy(each.name)
            content = describe_content(variables[each.name]) if is_shown else ""
            changes.append(each.model_copy(update={"content": content}))
        return result.model_copy(update={"variables": tuple(changes)})

    def _describe_changes(
        self, changes: Iterable[VariableChange], passing: Iterable[str], paths: Iterable[str]
    ) -> Iterator[str]:
        """Yield a line for each variable that is new or changed, for the model.

        What the code itself says is left out: imports, functions, classes, variables of loops.
        """
        variables = self.variables()
        touched = {each.name for each in changes}
        known = [name for name in variables if name not in touched]
        for each in changes:
            if each.change == "deleted":
                yield f"deleted: {one_line(each.name)}"
            elif each.name not in passing and is_data(variables.get(each.name, type)):
                word = "new" if each.change == "created" else "changed"
                of_type = f"→ {type_name(type(variables[each.name]))}"
                if each.summary and not each.summary.endswith(of_type):
                    yield f"{word}: {one_line(each.name)}: {each.summary}"
                else:
                    yield f"{word}: {self._describe_change(each.name, variables, known, paths)}"
                known.append(each.name)

    def _describe_change(
        self,
        name: str,
        variables: Mapping[str, object],
        known: Iterable[str],
        paths: Iterable[str],
    ) -> str:
        """Describe a variable in a line; columns that a file's description has are not named."""
        table = table_of(variables[name])
        if table is None or table.index:
            return brief_line(name, variables, known)
        for path in paths:
            text = self._description_of(path)
            first = text.partition("\n")[0]
            names = [f"\n{column.name} " for column in table.columns]
            if first.endswith(f" {table.width:,} columns") and all(map(text.__contains__, names)):
                return f"{one_line(name)}: {table.size} (columns as in {spell(path)})"
        return brief_line(name, variables, known)

    async def _await_and_label(
        self, result: Awaitable[ToolResult], code: str, effects: Effects
    ) -> ToolResult:
        return self._label_result(_add_lasting(await result, effects), code, effects)

    def _label_result(self, result: ToolResult, code: str, effects: Effects) -> ToolResult:
        return with_sources(self._add_changes(result, code, effects), effects.sources)


def _add_lasting(result: ToolResult, effects: Effects) -> ToolResult:
    """Return the result that says what may have changed, and cannot be taken back."""
    changes = (VariableChange(name=n, change="changed", kept=w) for n, w in effects.lasting.items())
    return result.model_copy(update={"lasting": tuple(changes)}) if effects.lasting else result
