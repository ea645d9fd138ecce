"""Results that say whose words they hold: what code prints and what variables are worth."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping

from ipyagent.kernel.namespace import Namespace
from ipyagent.kernel.outputs import Outputs
from ipyagent.kernel.prose import holds_prose, value_holds_prose
from ipyagent.kernel.provenance import Labels, Provenance
from ipyagent.schema import ToolResult
from ipyagent.tools.names import shown
from ipyagent.tools.reach import UNREADABLE, Reach, read_code
from ipyagent.tools.reach.code import literals

OUTPUT = "the output of code"
_TRIES = 5


def with_sources(result: ToolResult, sources: Iterable[str]) -> ToolResult:
    """Return the result as one that holds the words of those sources; without any, of nobody."""
    return result.model_copy(update={"source": "\n".join(dict.fromkeys(sources))})


class SourcedNamespace:
    """Runs code and looks at variables, and says whose words came of it."""

    def __init__(self, namespace: Namespace, provenance: Provenance) -> None:
        self._namespace, self._provenance = namespace, provenance

    def variables(self) -> Mapping[str, object]:
        """Return the user's variables by name."""
        return self._namespace.variables()

    def read(self, code: str, subject: str = "code") -> Reach:
        """Return what code would touch among the variables as they are now, from any thread."""
        for _ in range(_TRIES):
            try:
                return read_code(code, self.variables(), subject)
            except RuntimeError:  # a thread of the user's defines variables meanwhile
                continue
        return Reach({UNREADABLE: "the variables change all the time"}, subject=subject)

    def looked_at(self, name: str, result: ToolResult) -> ToolResult:
        """Return what was said of a variable, as its own words where there is prose among them."""
        value = self.variables().get(name)
        if not (holds_prose(result.full_output) and value_holds_prose(value)):
            return with_sources(result, ())
        return with_sources(result, self._provenance.labels_of(name, value))

    def run(self, code: str, outputs: Outputs | None = None) -> ToolResult | Awaitable[ToolResult]:
        """Run code; its result says from where the prose in it may be."""
        before = self.variables()
        reach = self.read(code)
        origins = self._origins(reach, before)
        result = self._namespace.run(code, outputs)
        if inspect.isawaitable(result):
            return self._awaited(result, code, reach, origins)
        return self._told(result, code, reach, origins)

    async def _awaited(
        self, result: Awaitable[ToolResult], code: str, reach: Reach, origins: Labels
    ) -> ToolResult:
        return self._told(await result, code, reach, origins)

    def _origins(self, reach: Reach, variables: Mapping[str, object]) -> Labels:
        """The origins of the variables that code loads, as far as they hold prose."""
        labels = (
            self._provenance.labels_of(name, variables[name])
            for name in reach.names
            if value_holds_prose(variables[name])
        )
        return tuple(dict.fromkeys(label for each in labels for label in each))

    def _told(self, result: ToolResult, code: str, reach: Reach, origins: Labels) -> ToolResult:
        touched = [each.name for each in result.variables if each.change != "deleted"]
        if not reach.touches:
            self._provenance.derive(touched, origins, self.variables())
        if not holds_prose(_words_of(result), literals(code)):
            return with_sources(result, ())
        files = [shown(path) for path in reach.paths]
        beyond = (files or [OUTPUT]) if reach.touches else []
        return with_sources(result, [*origins, *beyond])


def _words_of(result: ToolResult) -> str:
    error = result.error or ""
    return result.full_output if error in result.full_output else f"{result.full_output}\n{error}"
