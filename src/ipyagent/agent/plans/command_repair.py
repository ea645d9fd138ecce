"""Repair of failed commands: which changed command may be proposed to the user."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ipyagent.agent.policy import Arguments, CallPolicy, Effect, Verdict
from ipyagent.schema import Block, Message, Scope, ToolCall
from ipyagent.tools.base import Tool, get_command, replace_command
from ipyagent.tools.static_analysis import Effects

CHANGE_REQUEST = """\
This step of the plan failed, and its result says why. If another {argument} serves the same \
purpose, call {tool} once with it: only {argument} may differ, what was tried is not repeated, and \
nothing is deleted or overwritten on the way. The user is asked before it runs. If there is no \
such {argument}, say why and call nothing.\
"""

CONCERN = "changed after it failed"


@dataclass(frozen=True)
class ChangedCallPolicy:
    """A policy for a changed call: always ask the user, or refuse it."""

    policy: CallPolicy
    objection: str | None

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call."""
        verdict = self.policy.evaluate(tool, arguments, effects)
        if verdict.effect is Effect.DENY:
            return verdict
        if self.objection:
            return Verdict(Effect.DENY, reason=self.objection)
        reasons = (CONCERN, verdict.reason if verdict.effect is Effect.ASK else None)
        return Verdict(Effect.ASK, reason="; ".join(filter(None, reasons)))

    def grant(self, tool: Tool, scope: Scope, effects: Effects | None = None) -> None:
        """Do nothing: an approval covers this call alone."""


def command_of(tool: Tool, call: ToolCall) -> str | None:
    """Return the code or command of a call, if it has one."""
    return get_command(call.arguments, tool.command) if tool.command else None


def normalize_reply(message: Message, tool: Tool, planned: ToolCall, call_id: str) -> Message:
    """Return the reply with calls that are named after `planned` and give only the command."""
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


def find_objection(
    tool: Tool, proposed: Iterable[ToolCall], tried: Iterable[ToolCall]
) -> str | None:
    """Return why the proposed calls are not shown to the user, or None."""
    call, *others = proposed
    command = command_of(tool, call)
    if others or call.name != tool.name or call.parse_error or command is None:
        return f"it is not one call of {tool.name} with another {tool.command}"
    earlier = (command_of(tool, each) or "" for each in tried)
    if _collapse_spaces(command) in map(_collapse_spaces, earlier):
        return "it was tried before, and failed"
    if form := find_destructive(command):
        return f"a step that failed is not replaced by one that may destroy something: {form}"
    return None


def find_destructive(command: str) -> str | None:
    """Return the part of a command, or of Python code, that clearly destroys something."""
    # Python code may hold a command as text, and a command may pass for Python.
    for form in (*_DESTRUCTIVE.finditer(command), *_match_unquoted(command)):
        return " ".join(form[0].split())
    return next(_removal_calls(command), None)


def _collapse_spaces(command: str) -> str:
    return " ".join(command.split())


def _match_unquoted(command: str) -> Iterator[re.Match[str]]:
    """Match quoted and split spellings too: a shell runs r""m -rf and ["rm", "-rf"] as rm."""
    yield from _DESTRUCTIVE.finditer(re.sub(r"['\"\\\[\],]+", " ", command))
    yield from _DESTRUCTIVE.finditer(re.sub(r"['\"\\]+", "", command))


def _removal_calls(code: str) -> Iterator[str]:
    """Yield the calls in Python code that remove files or folders."""
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
"""`list.remove` is taken for `os.remove` too: a refusal costs little."""

_WORDS = frozenset({"remove", "truncate"})
"""The removers that are also ordinary words in text."""

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
