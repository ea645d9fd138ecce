"""Candidates for completion in prompts and behind `%%agent` and `%agent`.

Each kind is looked up within limits, so that a completion takes milliseconds however much there is.
A kind that fails, such as profiles while a settings file is invalid, leaves the others alone.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

from IPython.core.completer import SimpleCompletion

from ipyagent import config
from ipyagent.agent.prompts import MENTION
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import ShellNamespace, rank_names
from ipyagent.kernel.pages import Message
from ipyagent.llm.destinations import SCRIPTED, list_models
from ipyagent.magic import cells, commands
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import OptionInfo, list_options, split_prompt
from ipyagent.magic.subcommands import API, FREEZING, HERE, MCP, SESSION
from ipyagent.plaintext import first_line
from ipyagent.tools import path_rules
from ipyagent.tools.path_rules import WalkBudget
from ipyagent.ui import messages
from ipyagent.values.describe import brief
from ipyagent.values.describe.safe_inspect import one_line, type_name
from ipyagent.wiring import has_journal

log = logging.getLogger("ipyagent")

Completed = tuple[str, list[SimpleCompletion]]
"""The text before the cursor that completions replace, and the completions."""

NAMES = 8
"""Names that a page lists below a field."""

MOST = 100
"""Variables, and files, in one answer."""
DESCRIBING = 0.02  # seconds of work, after which variables are described by type only
FIRST = 5  # that are described in any case: Python may spend that time on its garbage
WALKING = 100_000, 0.08, 0.25  # entries, seconds of work, and seconds on a slow disk
ABOUT = 60  # characters
YAML = (".yaml", ".yml")

_MENTIONED = re.compile(r"(?<![\w@])@([\w./-]*)\Z")
_WORD = re.compile(r"(?<![\w.@/-])[^\W\d]\w*\Z")

_TABLES = {"session": SESSION, "mcp": MCP, "api": API}


def complete(where: str, text: str) -> Completed:
    """Return completions at the end of `text`, in a cell's `body` or `options`, or on a `line`."""
    places = {"body": _in_body, "options": _in_options, "line": _on_line}
    return places[where](notebook(), text)


def complete_for_page(message: Message) -> JsonDict:
    """Return names of variables and files with which a mention may go on."""
    _, found = complete("body", str(message.get("text")))
    return messages.Names(names=tuple([each.text for each in found[:NAMES]])).to_dict()


# -- prompts


def _in_body(book: Notebook, text: str) -> Completed:
    if at := _MENTIONED.search(text):
        return at[0], [*_all(_variables, book, at[1], "@"), *_all(_files, book, at[1], "@")]
    if word := _WORD.search(text):
        return word[0], _all(_variables, book, word[0])
    return "", []


def _variables(book: Notebook, typed: str, sign: str = "") -> Iterator[SimpleCompletion]:
    variables = ShellNamespace(book.shell).variables()
    wanted = {name: value for name, value in variables.items() if _begins(name, typed)}
    clear = (name for name in rank_names(wanted) if not sign or _mentions(sign + name))
    until = time.thread_time() + DESCRIBING
    for number, name in enumerate(islice(clear, MOST)):
        value = wanted[name]
        in_time = number < FIRST or time.thread_time() < until
        kind = brief(name, value) if in_time else type_name(type(value))
        yield SimpleCompletion(sign + name, type=kind)


def _files(
    book: Notebook, typed: str, sign: str = "", endings: tuple[str, ...] = ("",)
) -> Iterator[SimpleCompletion]:
    """Yield files by path or name; in a typed folder, those beneath it."""
    folder, slash, stem = typed.rpartition("/")
    entries = book.environment.workspace.walk(
        folder or ".",
        WalkBudget(*WALKING),
        with_sizes=False,
        # Of many folders, those whose names are typed are looked into first.
        is_next=lambda path: bool(stem) and _fits(path, stem),
    )
    fitting = (
        f"{folder}{slash}{each.path}"
        for each in entries
        if each.kind == "file" and each.path.endswith(endings) and _fits(each.path, stem)
    )
    mentionable = (path for path in fitting if _may_be_named(path, sign))
    for path in islice(mentionable, MOST):
        yield SimpleCompletion(sign + path, type="file")


def _fits(path: str, stem: str) -> bool:
    return _begins(path, stem) or _begins(path.rpartition("/")[2], stem)


def _may_be_named(path: str, sign: str) -> bool:
    hidden = f"/{path}".count("/.") > 0
    clear = _mentions(sign + path) if sign == "@" else shlex.quote(path) == path
    return clear and not hidden and not path_rules.is_sensitive(path)


def _mentions(text: str) -> bool:
    """Return whether the agent resolves a prompt's mention."""
    return MENTION.fullmatch(text) is not None and not text.endswith(".")


# -- the first line


def _in_options(book: Notebook, line: str) -> Completed:
    *before, word = re.split(r"\s+", line)
    if not word.startswith("-") and split_prompt(line.removesuffix(word))[1]:
        return _in_body(book, line)
    options = {name: option for option in list_options() for name in option.names}
    name, equals, value = word.partition("=")
    if equals and name in options:
        return _values(book, options[name], value)
    if before and before[-1] in options and options[before[-1]].takes_value:
        return _values(book, options[before[-1]], word)
    if word.startswith("@"):
        return word, [*_all(_profiles, book, word[1:], "@"), *_in_body(book, word)[1]]
    profiles = [] if word.startswith("-") else _all(_profiles, book, word)
    return word, [*profiles, *_options(options, before, word)]


def _options(
    options: Mapping[str, OptionInfo], before: list[str], word: str
) -> list[SimpleCompletion]:
    """Return options not given yet; short names only after a single dash."""
    given = {each.key for name in before if (each := options.get(name.partition("=")[0]))}
    return [
        SimpleCompletion(name, type=one_line(option.help, ABOUT))
        for name, option in options.items()
        if option.key not in given
        and name.startswith(word)
        and (word == "-" or name == option.names[-1])
    ]


def _values(book: Notebook, option: OptionInfo, typed: str) -> Completed:
    if option.key == "agent.allowed_tools":
        *taken, typed = typed.split(",")
        return typed, [each for each in _all(_tools, book, typed) if each.text not in taken]
    if option.choices:
        return typed, [
            _describe_name(each, option.help) for each in option.choices if _begins(each, typed)
        ]
    sources: dict[str, Callable[[Notebook, str], Iterable[SimpleCompletion]]] = {
        "agent": _profiles,
        "session": _sessions,
        "llm.model": _models,
        "config": partial(_files, endings=YAML),
    }
    source = sources.get(option.key)
    return typed, _all(source, book, typed) if source else []


def _profiles(book: Notebook, typed: str, sign: str = "") -> Iterator[SimpleCompletion]:
    for name, profile in book.settings.config.agents.items():
        if _begins(name, typed):
            yield _describe_name(sign + name, f"profile, {profile.confirm_mode}")


def _sessions(book: Notebook, typed: str) -> Iterator[SimpleCompletion]:
    """Yield recorded sessions; this creates no record."""
    if not has_journal(book.environment.workspace, book.settings.config.store.url):
        return
    for each in book.sessions.all.journal.sessions():
        if _begins(each.name, typed):
            since = f"{each.started_at.astimezone():%Y-%m-%d %H:%M}"
            yield _describe_name(each.name, f"session, {since}")


def _runs(book: Notebook, typed: str) -> Iterator[SimpleCompletion]:
    for run in reversed([*book.sessions.runs_so_far()]):
        if _begins(run.id, typed):
            yield _describe_name(run.id, run.prompt)


def _models(book: Notebook, typed: str) -> Iterator[SimpleCompletion]:
    """Yield models that need no question: of the settings, of the keys, and offline."""
    if typed.startswith(SCRIPTED):
        path = typed.removeprefix(SCRIPTED)
        yield from _files(book, path, SCRIPTED, endings=(*YAML, ".json"))
        return
    models = list_models(book.settings.config.llm, environ=os.environ)
    for name, why in {**models, SCRIPTED: "a script of replies"}.items():
        if _begins(name, typed):
            yield _describe_name(name, why)


def _tools(book: Notebook, typed: str) -> Iterator[SimpleCompletion]:
    """Yield the tools that are known without asking a server."""
    tools = [*book.environment.toolset.build(book.settings.config), *book.services.openapi.tools()]
    for each in tools:
        if _begins(each.name, typed):
            yield _describe_name(each.name, each.description)


# -- `%agent`


def _on_line(book: Notebook, line: str) -> Completed:
    *before, word = re.split(r"\s+", line)
    match before:
        case []:
            helps = {name: command.__doc__ or "" for name, command in commands.COMMANDS.items()}
            return word, _commands(helps, word)
        case [name] if name in _TABLES:
            return word, _commands({n: each.help for n, each in _TABLES[name].items()}, word)
        case ["model"]:
            return word, _all(_models, book, word)
        case ["config"]:
            return word, _all(_settings, book, word)
        case ["mcp" | "api", "activate" | "deactivate", *given] if HERE not in given:
            return word, [_describe_name(HERE, "in this notebook alone")] * HERE.startswith(word)
        case ["approve", *given] if cells.BACKGROUND not in given:
            option = cells.BACKGROUND
            return word, [_describe_name(option, "the plan runs on")] * option.startswith(word)
        case ["freeze", *given]:
            options = {name: text for name, text in FREEZING.items() if name not in given}
            return word, [*_commands(options, word), *_all(_runs, book, word)]
        case ["session", "resume"] | ["session", "diff", *_]:
            return word, _all(_sessions, book, word)
    return _in_options(book, line) if commands.is_prompt(line) else (word, [])


def _commands(helps: Mapping[str, str], word: str) -> list[SimpleCompletion]:
    return [
        _describe_name(name, text) for name, text in helps.items() if name and name.startswith(word)
    ]


def _settings(book: Notebook, typed: str) -> Iterator[SimpleCompletion]:
    for key, value, _origin in config.setting_rows(book.settings.resolve()):
        if key.startswith(typed):
            yield _describe_name(key, value)


# -- all of them


def _all(
    source: Callable[..., Iterable[SimpleCompletion]], *arguments: object
) -> list[SimpleCompletion]:
    try:
        return list(source(*arguments))
    except Exception:
        log.debug("nothing is completed from %s", source, exc_info=True)
        return []


def _begins(name: str, typed: str) -> bool:
    return name.casefold().startswith(typed.casefold())


def _describe_name(name: str, about: str) -> SimpleCompletion:
    return SimpleCompletion(name, type=one_line(first_line(about), ABOUT))
