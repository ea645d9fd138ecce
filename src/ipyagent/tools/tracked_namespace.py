"""A namespace that labels results with their sources: what code prints, the values of variables."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from types import ModuleType

from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.namespace import Namespace, brief_line
from ipyagent.kernel.outputs import Outputs
from ipyagent.kernel.prose import holds_prose, value_holds_prose
from ipyagent.kernel.provenance import Labels, Provenance
from ipyagent.plaintext import spell
from ipyagent.schema import ToolResult, VariableChange
from ipyagent.tools.static_analysis import UNKNOWN_EFFECTS, Effects, analyze_code
from ipyagent.tools.static_analysis.code import text_literals

CODE_OUTPUT = "the output of code"
_TRIES = 5
_CHANGES = 10
"""Changed variables that the model is told of."""


def with_sources(result: ToolResult, sources: Iterable[str]) -> ToolResult:
    """Return the result labelled with these sources; none if empty."""
    return result.model_copy(update={"source": "\n".join(dict.fromkeys(sources))})


class TrackedNamespace:
    """Runs code and inspects variables, and labels the results with their sources."""

    def __init__(self, namespace: Namespace, provenance: Provenance) -> None:
        self._namespace, self._provenance = namespace, provenance

    def variables(self) -> Mapping[str, object]:
        """Return the user's variables by name."""
        return self._namespace.variables()

    def analyze(self, code: str, subject: str = "code") -> Effects:
        """Return what code would touch among the variables as they are now, from any thread."""
        effects = self._analyze_text(code, subject)
        if UNKNOWN_EFFECTS in effects.touches or self._namespace.runs_as_written(code):
            return effects
        return Effects({UNKNOWN_EFFECTS: "IPython makes other code of it"}, subject=subject)

    def _analyze_text(self, code: str, subject: str) -> Effects:
        for _ in range(_TRIES):
            try:
                return analyze_code(code, self.variables(), subject)
            except RuntimeError:  # a thread of the user's defines variables meanwhile
                continue
        return Effects({UNKNOWN_EFFECTS: "the variables change all the time"}, subject=subject)

    def label_description(self, name: str, result: ToolResult) -> ToolResult:
        """Return the description of a variable, labelled if its values hold prose."""
        value = self.variables().get(name)
        if not (holds_prose(result.full_output) and value_holds_prose(value)):
            return with_sources(result, ())
        return with_sources(result, self._provenance.labels_of(name, value))

    def run(self, code: str, outputs: Outputs | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Run code; its result names the possible sources of prose in it."""
        before = self.variables()
        effects = self.analyze(code)
        origins = self._labels_loaded(effects, before)
        result = self._namespace.run(code, outputs)
        if inspect.isawaitable(result):
            return self._await_and_label(result, code, effects, origins)
        return self._label_result(result, code, effects, origins)

    def _add_changes(self, result: ToolResult) -> ToolResult:
        """Return the result that tells the model which variables are new or changed."""
        variables = self.variables()
        lines = list(_describe_changes(result.variables, variables))
        if len(lines) > _CHANGES:
            lines[_CHANGES:] = [f"… and {len(lines) - _CHANGES} more"]
        if not lines:
            return result
        text = result.output if result.for_model is None else result.for_model
        return result.model_copy(update={"for_model": "\n".join(filter(None, [text, *lines]))})

    async def _await_and_label(
        self, result: Awaitable[ToolResult], code: str, effects: Effects, origins: Labels
    ) -> ToolResult:
        return self._label_result(await result, code, effects, origins)

    def _labels_loaded(self, effects: Effects, variables: Mapping[str, object]) -> Labels:
        """Return the sources of the variables that code loads, as far as they hold prose."""
        labels = (
            self._provenance.labels_of(name, variables[name])
            for name in effects.variables
            if value_holds_prose(variables[name])
        )
        return tuple(dict.fromkeys(label for each in labels for label in each))

    def _label_result(
        self, result: ToolResult, code: str, effects: Effects, origins: Labels
    ) -> ToolResult:
        touched = [each.name for each in result.variables if each.change != "deleted"]
        result = self._add_changes(result)
        if not effects.touches:
            self._provenance.derive(touched, origins, self.variables())
        if not holds_prose(_output_and_error(result), text_literals(code)):
            return with_sources(result, ())
        files = [spell(path) for path in effects.paths]
        beyond = (files or [CODE_OUTPUT]) if effects.touches else []
        return with_sources(result, [*origins, *beyond])


def _describe_changes(
    changes: Iterable[VariableChange], variables: Mapping[str, object]
) -> Iterator[str]:
    """Yield a line for each variable that is new or changed, for the model."""
    for each in changes:
        if each.change == "deleted":
            yield f"deleted: {one_line(each.name)}"
        elif each.name in variables and type(variables[each.name]) is not ModuleType:
            word = "new" if each.change == "created" else "changed"
            yield f"{word}: {brief_line(each.name, variables)}"


def _output_and_error(result: ToolResult) -> str:
    texts = [result.full_output, result.error or "", result.for_model or ""]
    return "\n".join(text for i, text in enumerate(texts) if not i or text not in texts[0])
