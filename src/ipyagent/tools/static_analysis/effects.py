"""The effects of code, as static analysis finds them, and those of a shell command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ipyagent.phrases import ellipsize, join_words, word_set
from ipyagent.plaintext import flatten, spell, visible

READS = "files (reads)"
WRITES = "files (writes)"
NETWORK = "network"
PROCESSES = "processes"
ENVIRONMENT = "environment"
UNKNOWN_EFFECTS = "cannot be determined"

ORDER = (UNKNOWN_EFFECTS, NETWORK, PROCESSES, WRITES, READS, ENVIRONMENT)
"""The kinds, the gravest first."""

_DOES = {
    READS: "reads files",
    WRITES: "writes files",
    NETWORK: "uses the network",
    PROCESSES: "starts processes",
    ENVIRONMENT: "reads the environment",
}
_LONGEST = 60


@dataclass(frozen=True)
class Effects:
    """The effects of a call beside variables, each with the words that show it.

    `names` are the variables that it loads and `paths` the files that it names; `redefines` are the
    existing variables that it assigns. `lasting` says why what it may change
    inside of variables cannot be taken back.
    """

    touches: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    redefines: tuple[str, ...] = ()
    subject: str = "code"
    lasting: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds touched, without the words."""
        return frozenset(self.touches)

    @property
    def is_known(self) -> bool:
        """True if static analysis can name all effects."""
        return UNKNOWN_EFFECTS not in self.touches

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that the call reads beside variables, as far as it names them."""
        if not self.kinds - {WRITES, ENVIRONMENT}:
            return ()
        return tuple(map(spell, self.paths)) or ("the output of code",)

    def summary(self) -> str:
        """Return the effects in a line such as "touches: network (requests); redefines df"."""
        named = ", ".join(
            _format_kind(kind, self.touches[kind]) for kind in sort_kinds(self.touches)
        )
        lasting = (f"⚠ {visible(name)}: {why}" for name, why in self.lasting.items())
        touches = f"touches: {named}" if named else ""
        parts = [touches, describe_redefined(self.redefines), *lasting]
        return "; ".join(part for part in parts if part)

    def describe_beyond(self, kinds: Collection[str]) -> str:
        """Return the effects beyond `kinds`, in words; "" if there are none."""
        more = [kind for kind in sort_kinds(self.touches) if kind not in kinds]
        return ", ".join(_format_kind(kind, self.touches[kind]) for kind in more)


def describe_redefined(names: Collection[str]) -> str:
    """Return "redefines df and x", or ""."""
    some = [visible(name) for name in list(names)[:3]]
    more = [f"{len(names) - 3} more"] if len(names) > 3 else []
    return f"redefines {', '.join([*some, *more])}" if some else ""


def sort_kinds(kinds: Collection[str]) -> list[str]:
    """Return the kinds, the gravest first."""
    rank = {kind: n for n, kind in enumerate(ORDER)}
    return sorted(kinds, key=lambda kind: (rank.get(kind, len(ORDER)), kind))


def describe_coverage(subject: str, kinds: Collection[str]) -> str:
    """Return the reach of an approval beyond one call: "code that only works on variables"."""
    if subject == "commands":
        return "commands that only run " + join_words(sorted(kinds))
    does = [_DOES.get(kind, kind) for kind in sort_kinds(kinds)]
    base = "only works on variables" if subject == "code" else "only computes"
    if not does:
        return f"{subject} that {base}"
    return f"{subject} that {', '.join(does)}"


def _format_kind(kind: str, shown: str) -> str:
    text = ellipsize(flatten(shown), _LONGEST)
    return f"{kind} ({text})" if text else kind


_PLAIN = re.compile(r"[\w./:=,@%+~^ \t'\"{}*?\[\]-]*")
"""Words, quotes and globs: nothing that runs, redirects or expands something else."""
_RUN_OTHERS = word_set(
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
