"""Static analysis of a shell command: the program it runs, if it runs just one."""

from __future__ import annotations

import re
import shlex

from ipyagent.tools.static_analysis.effects import UNKNOWN_EFFECTS, Effects


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN = re.compile(r"[\w./:=,@%+~^ \t'\"{}*?\[\]-]*")
"""Words, quotes and globs: nothing that runs, redirects or expands something else."""
_RUN_OTHERS = _words(
    "ash awk bash busybox bun bunx chroot crontab dash deno doas docker env exec eval expect find "
    "fish flock gawk gdb git-shell ionice java julia ksh lua make mawk nice node nohup npm npx "
    "nsenter osascript parallel perl php pip pip3 pipx pnpm podman pwsh python python3 R Rscript "
    "ruby script sed setsid sh source ssh strace su sudo systemd-run tclsh time timeout tmux "
    "unshare uv uvx vi vim watch xargs yarn zsh"
)


def analyze_command(command: str) -> Effects:
    """Return the program that a command runs; a command of several is unknown."""
    program, why = _find_program(command)
    return Effects({program: ""} if program else {UNKNOWN_EFFECTS: why}, subject="commands")


def _find_program(command: str) -> tuple[str, str]:
    if not _PLAIN.fullmatch(command):
        return "", "more than one plain command"
    try:
        words = shlex.split(command)
    except ValueError:
        return "", "its quotes do not match"
    if not words or "=" in words[0] or not re.fullmatch(r"[\w.+-]+", words[0]):
        return "", "its program is not named plainly"
    name = re.sub(r"[\d.]+$", "", words[0])
    if words[0] in _RUN_OTHERS or name in _RUN_OTHERS:
        return "", f"{words[0]} can run anything"
    return words[0], ""
