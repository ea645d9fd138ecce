"""Talk about the explorer: its abilities, limits, suggestions, and other languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files

from ipyagent.explorer.frame import Frame
from ipyagent.explorer.markdown import code, codes
from ipyagent.explorer.workspace import Say, Workspace, of_context
from ipyagent.providers import default_models

_ABOUT = """\
I am a **deterministic data explorer, not a language model**. I turn clear requests into ordinary \
tool calls and tell you what they returned. I understand requests to

- list and read files, load tables (csv, tsv, parquet, xlsx, json)
- profile a table: size, types, missing values, duplicates, outliers, correlations
- compute statistics, counts and shares: by group, with a filter, rounded; what is highest
- compare two groups or two tables, test, correlate, plot
- change a table: fill, drop, rename, convert, add a column, sort, join, save

Try one of these:"""

_LANGUAGES: dict[str, dict[str, str]] = tomllib.loads(
    files("ipyagent.explorer").joinpath("languages.toml").read_text("utf-8")
)
_MARKS = {name: frozenset(each["words"].split()) for name, each in _LANGUAGES.items()}
_ENGLISH = frozenset({
    "the", "of", "in", "is", "are", "what", "which", "how", "show", "me", "by", "for", "and",
    "with", "to", "a", "an", "i", "no", "per", "file", "data",
})  # fmt: skip


def find_language(prompt: str) -> str | None:
    """Return the language of a prompt, if it is one of those that get a reply in it."""
    said = re.findall(r"[^\W\d_]+", prompt.casefold())
    scores = {name: sum(word in marks for word in said) for name, marks in _MARKS.items()}
    best = max(scores, key=scores.__getitem__)
    english = sum(word in _ENGLISH for word in said)
    enough = max(2, (len(said) + 2) // 3)
    return best if scores[best] >= enough and scores[best] > english else None


def _suggest_model() -> str:
    """Return how to use a language model instead."""
    key = next(iter(default_models()))
    return (
        f"For free conversation, set an API key such as `{key}`, "
        "or choose a model: `%agent model ollama/qwen3`."
    )


def suggest_for(context: str) -> list[str]:
    """Return three requests that fit a context block; none if it has nothing to ask about."""
    workspace = of_context(context)
    has_data = workspace.variables or any(not each.endswith(".ipynb") for each in workspace.files)
    return _suggest(workspace) if has_data else []


def list_suggestions(workspace: Workspace) -> str:
    """Return three requests that can be understood in this workspace, as a Markdown list."""
    return "\n".join(f"- {each}" for each in _suggest(workspace))


def _suggest(workspace: Workspace) -> list[str]:
    made = ["List files", "What variables are there?", "What can you do?"]
    if table := next(iter(workspace.tables.values()), None):
        name, numbers, texts = code(table.name), table.of_kind("number"), table.of_kind("text")
        floats = [n for n in numbers if "float" in table.dtype(n).lower()] or numbers
        middle = f"Histogram of {code(floats[-1])}" if floats else f"First 5 rows of {name}"
        if texts:
            what = f"Plot {code(floats[-1])}" if floats else f"Count {name}"
            middle = f"{what} by {code(texts[0])}"
        made = [f"Profile {name}", middle, f"Missing values in {name}"]
    elif workspace.table_files:
        made = [
            f"{do} {code(workspace.table_files[0])}"
            for do in ("Load", "Profile", "Missing values in")
        ]
    return made


def help_out(frame: Frame | None, workspace: Workspace) -> Say:
    """Describe the explorer's abilities."""
    return Say("help", f"{_ABOUT}\n\n{list_suggestions(workspace)}\n\n{_suggest_model()}")


def welcome(frame: Frame, workspace: Workspace) -> Say:
    """Answer thanks."""
    return Say("thanks", f"You're welcome. What next?\n\n{list_suggestions(workspace)}")


def decline(
    workspace: Workspace, unknown: Sequence[str], reasons: Sequence[str], offers: Sequence[str] = ()
) -> Say:
    """Decline honestly: name the unknown words, and why the words that fit do not apply."""
    names = f"These words are beyond me here: {codes(unknown)}." if unknown else ""
    why = " ".join(dict.fromkeys([*reasons, *[names] * bool(names)]))
    why = why or "I know these words, but not what they ask for together."
    meant = "Did you mean\n\n" + "\n".join(f"- {o}" for o in offers) + "\n\n" if offers else ""
    text = (
        f"**I can't answer that without guessing.** I'm a data explorer, not a language model. "
        f"{why}\n\n{meant}Try one of these:\n\n{list_suggestions(workspace)}\n\n{_suggest_model()}"
    )
    rule = f"unknown words {', '.join(unknown)}" if unknown else why
    return Say(f"declined: {rule}", text, True)


def decline_in(language: str, workspace: Workspace) -> Say:
    """Decline a prompt in another language, in that language."""
    said = " ".join(_LANGUAGES[language]["reply"].split())
    text = f"{said}\n\n{list_suggestions(workspace)}\n\n{_suggest_model()}"
    return Say(f"declined: {language}", text, True)
