"""Talk about the explorer: its abilities, its limits, and suggestions."""

from __future__ import annotations

from collections.abc import Sequence

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.steps import Say, Step
from ipyagent.explorer.workspace import Table, Workspace
from ipyagent.providers import default_models

_ABOUT = """\
I am a **deterministic data explorer, not a language model**. I turn clear requests into ordinary \
tool calls and tell you what they returned. I understand requests to

- list and read files, load tables (csv, tsv, parquet, xlsx, json)
- profile a table: size, types, missing values, duplicates, outliers, correlations
- compute statistics, counts and shares: by group, with a filter, rounded
- compare two groups or two tables, add a column, plot

Try one of these:"""


def _suggest_model() -> str:
    """Return how to use a language model instead."""
    key = next(iter(default_models()))
    return (
        f"For free conversation, set an API key such as `{key}`, "
        "or choose a model: `%agent model ollama/qwen3`."
    )


def suggestions(workspace: Workspace) -> list[str]:
    """Return three requests that can be understood in this workspace."""
    table = next(iter(workspace.tables.values()), None)
    if table is not None:
        return _about_table(table)
    if workspace.table_files:
        path = workspace.table_files[0]
        return [f"Load {code(path)}", f"Profile {code(path)}", f"Missing values in {code(path)}"]
    return ["List files", "What variables are there?", "What can you do?"]


def _about_table(table: Table) -> list[str]:
    name = code(table.name)
    numbers, texts = table.of_kind("number"), table.of_kind("text")
    floats = [n for n in numbers if "float" in (table.columns or {})[n].lower()] or numbers
    if floats and texts:
        middle = f"Plot {code(floats[-1])} by {code(texts[0])}"
    elif texts:
        middle = f"Count {name} by {code(texts[0])}"
    elif floats:
        middle = f"Histogram of {code(floats[-1])}"
    else:
        middle = f"First 5 rows of {name}"
    return [f"Profile {name}", middle, f"Missing values in {name}"]


def list_suggestions(workspace: Workspace) -> str:
    """Return the suggestions as a Markdown list."""
    return "\n".join(f"- {each}" for each in suggestions(workspace))


def _help(ask: Ask) -> Step:
    return helping(ask.workspace)


def helping(workspace: Workspace) -> Say:
    """Describe the explorer's abilities."""
    return Say("help", f"{_ABOUT}\n\n{list_suggestions(workspace)}\n\n{_suggest_model()}")


def _thanks(ask: Ask) -> Step:
    return Say("thanks", f"You're welcome. What next?\n\n{list_suggestions(ask.workspace)}")


def decline(
    workspace: Workspace,
    unknown: Sequence[str],
    reasons: Sequence[str],
    offers: Sequence[str] = (),
) -> Say:
    """Decline honestly: name the unknown words, or why the matching rules do not apply."""
    if reasons:
        why = " ".join(dict.fromkeys(reasons))
    elif unknown:
        why = f"These words are beyond me here: {codes(unknown)}."
    else:
        why = "I know these words, but not what they ask for together."
    text = (
        f"**I can't answer that without guessing.** I'm a data explorer, not a language model. "
        f"{why}\n\n{_did_you_mean(offers)}Try one of these:\n\n{list_suggestions(workspace)}"
        f"\n\n{_suggest_model()}"
    )
    return Say(
        "declined: " + (f"unknown words {', '.join(unknown)}" if unknown else why), text, True
    )


def _did_you_mean(offers: Sequence[str]) -> str:
    if not offers:
        return ""
    return "Did you mean\n\n" + "\n".join(f"- {each}" for each in offers) + "\n\n"


RULES = (SentenceRule("HELP", _help), SentenceRule("THANKS (AND? THANKS)*", _thanks))
