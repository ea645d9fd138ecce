"""The choice of the tools that the model is offered: each one costs bytes in every request.

A tool that is not offered can still be called, by a model that knows it from earlier or from a
plan; the settings alone decide which tools exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ipyagent.config import Config
from ipyagent.llm.client import ModelSize
from ipyagent.tools.base import Toolbox

CORE = frozenset(
    {
        "list_files", "read_file", "write_file", "edit_file", "delete_file", "search_files",
        "inspect_file", "list_variables", "inspect_variable", "run_python",
        "todo_write", "ask_user",
    }
)  # fmt: skip
"""The built-in tools that every model is offered."""

SMALL = frozenset(
    {"read_file", "write_file", "inspect_file", "inspect_variable", "run_python", "ask_user"}
)
"""The built-in tools that a small model is offered; the context lists its files."""

SHORT_RESULT = 8_000
"""Characters of a result for a small model, or one with a short context."""

_CELLS = re.compile(r"\b(?:cells?|notebooks?)\b|\.ipynb\b", re.IGNORECASE)
_NOTES = re.compile(r"\b(?:notes?|remember|recall|memor(?:y|i[sz]e))\b", re.IGNORECASE)
_SCRIPTS = re.compile(r"\bscripts?\b", re.IGNORECASE)

_SUBJECTS: Mapping[str, re.Pattern[str]] = {
    "read_notebook": _CELLS,
    "insert_cell": _CELLS,
    "edit_cell": _CELLS,
    "run_cell": _CELLS,
    "record_note": _NOTES,
    "recall_notes": _NOTES,
    "python_script": _SCRIPTS,
}
"""Words in a prompt that ask for a tool."""

_BUILT_IN = CORE | _SUBJECTS.keys() | {"run_shell"}


@dataclass(frozen=True)
class Occasion:
    """The facts about a run that decide which tools are of use."""

    prompt: str = ""
    page_is_open: bool = False
    has_notes: bool = False
    model_is_small: bool = False


def offer_tools(
    toolbox: Toolbox, config: Config, occasion: Occasion, earlier: Collection[str] = ()
) -> Toolbox:
    """Return the toolbox that offers the tools of use on this occasion.

    `earlier` are the names that the conversation's last request offered, in order. They stay, and
    stay first: with other tools a provider's cache does not know the request any more.
    """
    if config.agent.allowed_tools or config.tools.offer == "all":
        return toolbox
    is_small = wants_small_set(config, occasion.model_is_small)
    wanted = {each.name for each in toolbox if each.name not in _BUILT_IN}
    wanted |= SMALL if is_small else CORE | set(_useful_tools(config, occasion))
    wanted |= set(_named_tools(config, occasion.prompt))
    if not is_small or not any(name in CORE - SMALL for name in earlier):
        wanted |= set(earlier)
    names = [*earlier, *(each.name for each in toolbox)]
    return toolbox.offer(name for name in dict.fromkeys(names) if name in wanted)


def wants_small_set(config: Config, model_is_small: bool) -> bool:
    """Return whether the settings, or the model's size, ask for the small set of tools."""
    chosen = config.tools.offer
    return chosen == "small" or (chosen == "auto" and model_is_small)


def describe_small_set(model: str, size: ModelSize) -> str:
    """Return the notice that a small model gets fewer tools."""
    return (
        f"{model} is a small model ({size.reason}), so it gets fewer tools and shorter results. "
        "`%agent config tools.offer=core` gives it the usual ones."
    )


def _useful_tools(config: Config, occasion: Occasion) -> Iterator[str]:
    """Yield the names of tools beyond the core that are of use now."""
    asked_for = {name for name, words in _SUBJECTS.items() if words.search(occasion.prompt)}
    yield from asked_for
    if config.tools.shell:
        yield "run_shell"
    if "scripts" in config.tools.model_fields_set:  # switched on, not only on by default
        yield "python_script"
    if occasion.has_notes:
        yield from ("record_note", "recall_notes")
    if occasion.page_is_open:
        yield from ("read_notebook", "insert_cell", "edit_cell", "run_cell")


def _named_tools(config: Config, prompt: str) -> Iterator[str]:
    """Yield the built-in tools that the prompt, or a rule that lets them run, names."""
    for rule in config.policy.rules:
        if rule.effect != "deny":
            yield from rule.tool
    yield from _BUILT_IN & set(re.findall(r"\w+_\w+", prompt))
