"""`ipyagent ask` and `ipyagent chat`: the agent in a terminal, in scripts and in CI.

The exit code of `ask` is 0 for a success, 1 for a run that failed, 2 for a mistake in the command
or the settings, 3 for a partial run or a plan that waits, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ipyagent import __version__, llm
from ipyagent.agent.approvals import Answer, Approvals
from ipyagent.agent.signs import find_decision
from ipyagent.api import Agent
from ipyagent.errors import AgentError, AgentInterrupted, ConfigError
from ipyagent.imports import working_folder
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.namespace import Namespace
from ipyagent.kernel.shell import Frontend, detect
from ipyagent.magic.options import Options, add_options, options_from
from ipyagent.schema import Outcome, Run, RunStatus
from ipyagent.ui.views import SilentView, View, show_run, view_for
from ipyagent.wiring import runtime

USAGE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
CODES = {Outcome.SUCCESS: 0, Outcome.FAILED: 1, Outcome.PARTIAL: 3, Outcome.RUNNING: 3}
"""Exit codes; a run that has not ended is a plan that waits."""

ASK = "ipyagent ask [options] [PROMPT … | --file PATH]"
CHAT_HELP = "Type a prompt; `exit`, `quit` or Ctrl-D ends, Ctrl-C stops a run."
LEAVING = frozenset({"exit", "quit"})


class TerminalAgent(Agent):
    """An agent for a terminal: it shows its runs, and has variables of its own."""

    def __init__(self, options: Options) -> None:
        self.options = options
        super().__init__(profile=options.agent, session=options.session, layers=options.layers)

    def answer(self, prompt: str) -> Run:
        """Answer a prompt, and show it as the options ask for; raise AgentInterrupted."""
        options = self.options
        try:
            run = self.ask(
                prompt,
                plan=options.plan or None,
                dry_run=options.dry_run,
                trace_id=options.trace_id,
            )
        except AgentInterrupted:
            if (stopped := runtime().last_run) is not None:
                self._print(stopped)
            raise
        self._print(run)
        if run.status is RunStatus.DRAFT:
            again = f"ipyagent ask -s {shlex.quote(self.session.name)}"
            waits = f"ipyagent: the plan waits: `{again} yes` runs it, `{again} no` cancels it"
            print(waits, file=sys.stderr)  # noqa: T201
        return run

    def _print(self, run: Run) -> None:
        if self.options.json:
            print(json.dumps(run.to_output_dict(), ensure_ascii=False, indent=2))  # noqa: T201

    def _decision(self, prompt: str) -> Answer | None:
        return find_decision(self.session, prompt)

    def _view(self) -> Callable[[Cell, Approvals, Frontend], View]:
        return SilentView if self.options.json else view_for

    def _namespace(self) -> Namespace:
        return Namespace({})

    def _refuse(self, prompt: str, error: AgentError) -> Run:
        run = super()._refuse(prompt, error)
        if not self.options.json:
            show_run(detect(None), run)
        return run


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. {self.format_usage().strip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    llm.prepare_environment()
    try:
        arguments = vars(_parser().parse_args(argv))
        command = arguments.pop("command")
        code: int = command(arguments)
        if sys.stdout is not None:  # as for a closed descriptor
            sys.stdout.flush()
    except (ConfigError, AgentError) as error:
        print(f"ipyagent: {error}", file=sys.stderr)  # noqa: T201
        return USAGE if isinstance(error, ConfigError) else CODES[Outcome.FAILED]
    except KeyboardInterrupt as stop:
        print(f"ipyagent: {stop or 'stopped'}", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:  # such as `| head`; Python itself would write once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ipyagent", description="An agent for your data and files.")
    parser.add_argument("--version", action="version", version=f"ipyagent {__version__}")
    commands = parser.add_subparsers(required=True, metavar="ask|chat")
    ask = commands.add_parser("ask", help="answer one prompt", usage=ASK, allow_abbrev=False)
    ask.add_argument(
        "prompt", nargs="*", metavar="PROMPT", help="what to do; - or none: from stdin"
    )
    ask.add_argument("--file", metavar="PATH", help="a text file that holds the prompt")
    ask.set_defaults(command=_ask)
    chat = commands.add_parser("chat", help="talk, prompt by prompt", allow_abbrev=False)
    chat.set_defaults(command=_chat)
    for each in (ask, chat):
        add_options(each)
    return parser


def _ask(arguments: dict[str, object]) -> int:
    prompt = _prompt(arguments.pop("prompt"), arguments.pop("file"))
    return CODES[_agent(arguments, "ipyagent ask").answer(prompt).outcome]


def _agent(arguments: dict[str, object], command: str) -> TerminalAgent:
    """Return the agent of a command with these options; raise ConfigError."""
    folder = working_folder()
    if folder is None:
        raise ConfigError(
            f"the folder in which `{command}` was started is not there any more; go to another one "
            "with cd"
        )
    return TerminalAgent(options_from(arguments, folder, command))


def _prompt(words: object, file: object) -> str:
    """Return the prompt from the command, a file or standard input; raise ConfigError."""
    argument_text = " ".join(words) if isinstance(words, list) else ""
    if file is not None and argument_text:
        raise ConfigError("a prompt and --file are both given; keep one")
    if argument_text and argument_text != "-":
        return argument_text
    if file is None and not argument_text and detect(None).can_input:
        raise ConfigError(f"there is no prompt. usage: {ASK}")
    try:
        text = _standard_input() if file is None else Path(str(file)).read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"--file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file or 'standard input'} is not text in UTF-8") from None
    if not text.strip():
        raise ConfigError(f"{file or 'standard input'} holds no prompt. usage: {ASK}")
    return text


def _standard_input() -> str:
    """Return all of it; in plain locales Python would decode it wrongly."""
    if sys.stdin is None:
        return ""
    raw = getattr(sys.stdin, "buffer", None)
    text = sys.stdin.read() if raw is None else raw.read().decode("utf-8-sig")
    return "\n".join(text.splitlines()) if "\r" in text else text


def _line(is_terminal: bool) -> str:
    """Return the next prompt of a chat; raise EOFError at the end of the input."""
    if sys.stdin is None:
        raise EOFError
    line = input("> " if is_terminal else "").strip()
    line.encode()
    return line


def _chat(arguments: dict[str, object]) -> int:
    agent, is_terminal = _agent(arguments, "ipyagent chat"), detect(None).can_input
    if is_terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - input() then has a history and can be edited
        print(CHAT_HELP)  # noqa: T201
    while True:
        try:
            prompt = _line(is_terminal)
        except EOFError:
            break
        except UnicodeError:
            print("ipyagent: this line is not text in UTF-8", file=sys.stderr)  # noqa: T201
            continue
        except KeyboardInterrupt:
            print(f"\n{CHAT_HELP}")  # noqa: T201
            continue
        if prompt in LEAVING:
            return 0
        if prompt:
            _turn(agent, prompt)
    if is_terminal:
        print()  # noqa: T201
    return 0


def _turn(agent: TerminalAgent, prompt: str) -> None:
    """Answer one prompt of a chat, which continues whatever happens."""
    try:
        agent.answer(prompt)
    except KeyboardInterrupt as stop:
        print(f"ipyagent: {stop or 'stopped'}", file=sys.stderr)  # noqa: T201
    except AgentError as error:
        print(f"ipyagent: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
