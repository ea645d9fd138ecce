"""The options of `%%agent`."""

from __future__ import annotations

import argparse
import difflib
import io
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

from ipyagent import telemetry
from ipyagent.config import Layer, from_file
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict

USAGE = """\
%%agent [options] [prompt], or %agent [options] prompt
More of the prompt, as many lines as you like. @name refers to a variable or a file.\
"""


WAITING = {"out": "--out", "json": "--json", "raises": "--raise", "dry_run": "--dry-run"}

HELP_AT = 27
"""The column of the help of options and subcommands."""

_OPTION = re.compile(r"(?<!\S)--?[a-zA-Z][\w-]*")


@dataclass(frozen=True)
class Options:
    """The options on a cell's first line, and the text that is not an option."""

    layers: tuple[Layer, ...]
    agent: str | None
    session: str | None
    trace_id: str
    dry_run: bool
    plan: bool
    out: str | None
    json: bool
    raises: bool
    result: str | None
    expected: tuple[str, ...]
    background: bool
    rewind: bool
    cell: str
    prompt: str

    def name_profile(self, profiles: Iterable[str]) -> Options:
        """Return these options, a prompt like a profile's name as the choice of that profile."""
        name = self.prompt.removeprefix("@")
        if self.agent or not find_near(name, profiles):
            return self
        return replace(self, agent=name, prompt="")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"%%agent: {message}. {self.format_usage().strip()} [prompt]")


@cache  # it takes a third of the time before a request to build
def _make_parser() -> tuple[_Parser, list[argparse.Action]]:
    """Return the parser of a cell's first line, and its options in the order of its help."""
    rows = partial(argparse.HelpFormatter, max_help_position=HELP_AT, width=120)
    parser = _Parser(prog="%%agent", add_help=False, allow_abbrev=False, formatter_class=rows)
    add = parser.add_argument
    options = [
        *add_options(parser),
        add("-o", "--out", metavar="NAME", help="bind the Run to this variable as well"),
        add("--result", metavar="NAME", help="answer as an instance of that type: run.value"),
        add("--expect", action="append", metavar="EXPR", help="what is to hold of the run"),
        add("--background", action="store_true", help="the plan runs on while other cells run"),
        _add_replay(parser, "--fresh", "never", "ask the model, even if a recording is there"),
        _add_replay(parser, "--replay", "always", "repeat what is recorded, or fail"),
        add("--rewind", action="store_true", help="take back this cell's runs and all since"),
        add("--cell", metavar="N", default="", help="about the cell [N] of this notebook, or #N"),
        add("--raise", dest="raises", action="store_true", help="raise when the run fails"),
    ]
    return parser, options


def _add_replay(
    parser: argparse.ArgumentParser, name: str, value: str, help_text: str
) -> argparse.Action:
    return parser.add_argument(
        name, dest="agent.replay", action="store_const", const=value, help=help_text
    )


def add_options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Add the options that cells and the command line share, and return them."""
    add = parser.add_argument
    profiles = "explain, plan, review, write, or a profile of the settings"
    models = "any LiteLLM model id, offline/explorer, …"
    return [
        add("-a", "--agent", metavar="NAME", help=profiles),
        add("-s", "--session", metavar="NAME", help="continue or start that session"),
        add("-m", "--model", dest="llm.model", metavar="ID", help=models),
        add(
            "--confirm",
            dest="agent.confirm_mode",
            choices=["confirm-sensitive", "confirm-all", "yolo"],
            metavar="MODE",
            help="ask about confirm-sensitive, confirm-all, or nothing (yolo)",
        ),
        add("--tools", dest="agent.allowed_tools", metavar="A,B", help="only these tools"),
        add("--max-steps", dest="agent.max_steps", metavar="N", help="at most N requests"),
        add("--max-seconds", dest="agent.max_seconds", metavar="S", help="at most S seconds"),
        add("--max-tokens", dest="agent.max_tokens", metavar="N", help="at most about N tokens"),
        add("--max-usd", dest="agent.max_usd", metavar="X", help="at most about X US dollars"),
        add("--config", metavar="PATH", help="a YAML file with settings"),
        add("--trace-id", metavar="ID", help="the id that logs, traces and the card carry"),
        add(
            "-v",
            dest="logging.verbose",
            action="count",
            help="draw more of it open; -vv, -vvv: still more",
        ),
        add("--plan", action="store_true", help="propose a plan, which runs when you approve it"),
        add("--dry-run", action="store_true", help="check and show every call, run none"),
        add("--json", action="store_true", help="print the run as JSON, show no transcript"),
    ]


def parse(line: str, folder: Path) -> Options:
    """Parse a cell's first line, paths relative to `folder`; raises ConfigError."""
    try:
        words, prompt = split_prompt(line)
    except ValueError as error:
        raise ConfigError(f"%%agent: {error} in {line!r}") from None
    parser, _ = _make_parser()
    values = vars(parser.parse_args(words)) | {"prompt": prompt}
    out = values["out"]
    if out is not None and not out.isidentifier():
        raise ConfigError(f"%%agent: --out needs the name of a variable, not {out!r}")
    if values["background"]:
        _check_background(values)
    if values["rewind"] and (values["dry_run"] or values["session"]):
        raise ConfigError(
            "%%agent: --rewind takes back runs of the notebook's own session; leave out --dry-run "
            "and --session"
        )
    return options_from(values, folder, "%%agent")


def split_prompt(line: str) -> tuple[list[str], str]:
    """Split a line into the words of its options and the prompt, which stays as it is written.

    Options come first. Behind the prompt only a long one may begin, since a prompt may name those
    of other programs; raises ConfigError where that is not clear, ValueError for an open quote.
    """
    text, words = io.StringIO(line), list[str]()
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    takes_value = {name: each.takes_value for each in list_options() for name in each.names}
    while (prompt := line[text.tell() :].strip()).startswith("-"):
        words.append(lexer.get_token() or "")
        if takes_value.get(words[-1]) and (value := lexer.get_token()) is not None:
            words.append(value)
    for found in _OPTION.finditer(prompt):
        option, before = found[0], prompt[: found.start()].strip()
        if option.startswith("--") or option in takes_value:
            more, rest = split_prompt(prompt[found.start() :])
            if rest or (" " in before and not option.startswith("--")):
                raise ConfigError(
                    f"%%agent: {option} is in the prompt. Options go before it; a prompt with such "
                    "a word goes below a first line that is only %%agent"
                )
            return [*words, *more], before
    return words, prompt


_EXPECTED = re.compile(r"^--expect[ \t]+(\S.*?)[ \t]*$\n?", re.MULTILINE)


def split_expectations(text: str) -> tuple[str, list[str]]:
    """Return a cell's text without the lines that are expectations, and the expressions there."""
    return _EXPECTED.sub("", text), _EXPECTED.findall(text)


def find_near(word: str, names: Iterable[str]) -> str:
    """Return the name that a word is, or is perhaps a misspelling of; "" for other words."""
    return next(iter(difflib.get_close_matches(word, names, n=1, cutoff=0.75)), "")


def _check_background(values: dict[str, object]) -> None:
    """Raise ConfigError for options that need the end of the run, which such a cell lacks."""
    for key, option in WAITING.items():
        if values[key]:
            raise ConfigError(
                f"%%agent: {option} is about how the run ended, and with --background the cell "
                "does not wait for that. Leave one of them out; `ipyagent.last` is the run when it "
                "has ended"
            )


def options_from(values: JsonDict, folder: Path, command: str) -> Options:
    """Return the parsed options, paths relative to `folder`; raise ConfigError.

    `command` is the name of the command in messages.
    """
    trace_id = values["trace_id"]
    options = Layer(f"{command}'s options", _sections(values))
    return Options(
        layers=(*_file(values["config"], folder, command), options),
        agent=values["agent"],
        session=values["session"],
        trace_id=telemetry.check_trace_id(trace_id) if trace_id else telemetry.new_trace_id(),
        dry_run=values["dry_run"],
        plan=values["plan"],
        json=values["json"],
        out=values.get("out"),
        raises=values.get("raises", False),
        result=values.get("result"),
        expected=tuple(values.get("expect") or ()),
        background=values.get("background", False),
        rewind=values.get("rewind", False),
        cell=values.get("cell", ""),
        prompt=values.get("prompt", ""),
    )


def _file(path: str | None, folder: Path, command: str) -> tuple[Layer, ...]:
    """Return the layer of `--config PATH`, which must exist."""
    if path is None:
        return ()
    where = folder / Path(path).expanduser()
    if not where.is_file():
        raise ConfigError(f"{command}: --config {path}: there is no such file")
    return (from_file(where),)


@dataclass(frozen=True)
class OptionInfo:
    """An option of the parser."""

    names: tuple[str, ...]
    key: str
    """The key of its value: `agent`, or a setting such as `llm.model`."""
    takes_value: bool
    choices: tuple[str, ...]
    help: str


def list_options() -> tuple[OptionInfo, ...]:
    """Return all options."""
    _, options = _make_parser()
    return tuple(
        [
            OptionInfo(
                tuple(each.option_strings),
                each.dest,
                each.nargs != 0,
                tuple(each.choices or ()),
                each.help or "",
            )
            for each in options
        ]
    )


def options_help() -> str:
    """Return the help of the options, one a line."""
    parser, _ = _make_parser()
    return parser.format_help().split("options:\n", 1)[1].rstrip()


def _sections(values: JsonDict) -> dict[str, JsonDict]:
    sections: dict[str, JsonDict] = {}
    for dotted, value in values.items():
        section, dot, key = dotted.partition(".")
        if dot and value is not None:
            sections.setdefault(section, {})[key] = value
    return sections
