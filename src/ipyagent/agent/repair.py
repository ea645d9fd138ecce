"""A command that failed: what the model may propose instead, before a person is asked about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ipyagent.agent.policy import Arguments, Effect, Judge, Verdict
from ipyagent.schema import Block, Message, Scope, ToolCall
from ipyagent.tools.base import Tool
from ipyagent.tools.commands import read_command, replace_command
from ipyagent.tools.reach import Reach

ASK = """\
This step of the plan failed, and its result says why. If another {argument} serves the same \
purpose, call {tool} once with it: only {argument} may differ, what was tried is not repeated, and \
nothing is deleted or overwritten on the way. The person is asked before it runs. If there is no \
such {argument}, say why and call nothing.\
"""

CONCERN = "changed after it failed"


@dataclass(frozen=True)
class Changed:
    """Judges a changed call: a person is asked about it, whatever is allowed, or it is refused."""

    policy: Judge
    objection: str | None

    def judge(self, tool: Tool, arguments: Arguments, reach: Reach | None = None) -> Verdict:
        """What becomes of the call."""
        verdict = self.policy.judge(tool, arguments, reach)
        if verdict.effect is Effect.DENY:
            return verdict
        if self.objection:
            return Verdict(Effect.DENY, reason=self.objection)
        reasons = (CONCERN, verdict.reason if verdict.effect is Effect.ASK else None)
        return Verdict(Effect.ASK, reason="; ".join(filter(None, reasons)))

    def grant(self, tool: Tool, scope: Scope, reach: Reach | None = None) -> None:
        """An approval is good for this call alone."""


def command_of(tool: Tool, call: ToolCall) -> str | None:
    """Return the code or command of a call that has one."""
    return read_command(call.arguments, tool.command) if tool.command else None


def named(message: Message, tool: Tool, planned: ToolCall, call_id: str) -> Message:
    """The model's reply as it counts: calls named after `planned`, which give only the command."""
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            changes: dict[str, Any] = {"id": call_id}
            command = command_of(tool, block) if block.name == tool.name else None
            if tool.command and command is not None:
                changed = replace_command(planned.arguments, tool.command, command)
                changes["arguments"] = changed
            block, call_id = block.model_copy(update=changes), f"{call_id}.1"
        content.append(block)
    return message.model_copy(update={"content": tuple(content)})


def objection(tool: Tool, proposed: Iterable[ToolCall], tried: Iterable[ToolCall]) -> str | None:
    """Why what the model proposed is not even shown to a person."""
    call, *others = proposed
    command = command_of(tool, call)
    if others or call.name != tool.name or call.parse_error or command is None:
        return f"it is not one call of {tool.name} with another {tool.command}"
    earlier = (command_of(tool, each) or "" for each in tried)
    if _bare(command) in map(_bare, earlier):
        return "it was tried before, and failed"
    if form := destructive(command):
        return f"a step that failed is not replaced by one that may destroy something: {form}"
    return None


def destructive(command: str) -> str | None:
    """What in a command, or in Python code, clearly destroys something."""
    # Python code may hold a command as text, and a command may pass for Python.
    for form in (*_DESTRUCTIVE.finditer(command), *_unquoted(command)):
        return " ".join(form[0].split())
    return next(_calls(command), None)


def _bare(command: str) -> str:
    return " ".join(command.split())


def _unquoted(command: str) -> Iterator[re.Match[str]]:
    """The same in the words that a shell makes of r""m -rf, and in ["rm", "-rf"]."""
    yield from _DESTRUCTIVE.finditer(re.sub(r"['\"\\\[\],]+", " ", command))
    yield from _DESTRUCTIVE.finditer(re.sub(r"['\"\\]+", "", command))


def _calls(code: str) -> Iterator[str]:
    """Calls in Python code by which files and folders go away."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in _REMOVERS:
                yield name
            case ast.Name(id=name) if names.get(name) in _REMOVERS:
                yield names[name]
            case ast.Constant(value=str(name)) if name in _REMOVERS - _WORDS:
                yield name  # as in getattr(shutil, "rmtree")


_REMOVERS = frozenset({"rmtree", "remove", "removedirs", "unlink", "rmdir", "truncate", "killpg"})
"""`list.remove` is taken for `os.remove` too, since a refusal costs little."""

_WORDS = frozenset({"remove", "truncate"})
"""Of those, what is also an ordinary word where it stands as text."""

_DESTRUCTIVE = re.compile(
    r"""(?ix)
      \brm\s+[-\w./~*$]
    | \b(?:rmdir|shred|wipefs|truncate|unlink)\s+\S
    | \bmkfs(?:\.\w+)?\b | \bfdisk\b | \bparted\b
    | \bdd\b[^|;&\n]*\bof=
    | >\s*/(?:dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)|etc/|proc/|sys/|boot/)
    | \bfind\b[^|;&\n]*\s-(?:delete\b|exec(?:dir)?\s+(?:rm|shred|unlink)\b)
    | \bxargs\b[^|;&\n]*\b(?:rm|shred|unlink)\b
    | \brsync\b[^|;&\n]*\s--del
    | \bgit\s+(?:-\S+\s+(?:\S+=\S+\s+)?)*(?:
          reset\s[^|;&\n]*--hard | clean\s[^|;&\n]*-[a-z]*[fdx]
        | push\s[^|;&\n]*(?:-f\b|--force|\s\+\w) | checkout\s+(?:--\s+)?\.(?:\s|$)
        | restore\s+\. | branch\s+-D | stash\s+(?:drop|clear) )
    | \bch(?:mod|own|grp)\s+(?:-\S+\s+)*(?:-[a-z]*R|--recursive)
    | \bkill(?:all)?\s+(?:-\S+\s+)*-\s?(?:9|KILL|SIGKILL)\b | \bpkill\b
    | \b(?:curl|wget|fetch)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|z|da|k|c)?sh\b
    | \b(?:curl|wget)\b[^;&\n]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:python|perl|ruby|node)\S*
    | \b(?:ba|z|da)?sh\s+(?:-c\s+)?[<"'(\s]*[<$]\(?\s*\(?\s*(?:curl|wget)\b
    | \bdrop\s+(?:table|database|schema|index|view)\b | \btruncate\s+table\b
    | \bdelete\s+from\s+\S+\s*(?:;|["']|$)
    | :\(\)\s*\{ | \b(?:shutdown|reboot|halt|poweroff)\b
    | \bdocker\s+(?:system|volume|image|container)\s+(?:prune|rm)\b
    """
)
