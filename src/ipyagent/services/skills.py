"""Skills: instructions for one kind of task each, told by name and read when the task comes up."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

import platformdirs

from ipyagent.errors import InvalidArgumentsError
from ipyagent.schema import Skill
from ipyagent.services.skill_folders import Finder, Found, key
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.workspace import Workspace

_MAX_TOLD = 60
_MAX_LINE = 300

_ALWAYS = frozenset({"get_skill", "todo_write", "ask_user"})
_ALIASES = {
    "read": "read_file",
    "write": "write_file",
    "edit": "edit_file",
    "multiedit": "edit_file",
    "bash": "run_shell",
    "shell": "run_shell",
    "grep": "search_files",
    "glob": "list_files",
    "ls": "list_files",
    "python": "run_python",
    "notebookread": "read_notebook",
    "notebookedit": "edit_cell",
}


def personal_folder() -> Path:
    """Where the person's own skills are; it need not exist."""
    return platformdirs.user_config_path("ipyagent") / "skills"


class Skills:
    """The skills that a run may use: those in the person's folder, then the workspace's.

    They are looked for once. A skill that was loaded stays so, and while it does, only tools that
    it allows may be used, if it names any.
    """

    def __init__(self, workspace: Workspace, personal: Path | None) -> None:
        self._workspace = workspace
        self._personal = personal
        self._finder = Finder()
        self._loaded: dict[str, Skill] = {}

    def all(self) -> tuple[Skill, ...]:
        """The person's skills before the workspace's, each by the name of their folders."""
        return tuple(each.skill for each in self._found.values())

    def notices(self) -> tuple[str, ...]:
        """Which skills are left out, and why."""
        _ = self._found
        return tuple(self._finder.notices)

    def is_own(self, skill: Skill) -> bool:
        """Whether a skill is the person's, not the workspace's."""
        return self._found[key(skill.name)].own

    def prompt(self) -> str:
        """Names and descriptions for the system prompt; empty where there are no skills."""
        if not self._found:
            return ""
        lines = [_told(each) for each in self._found.values()]
        if len(lines) > _MAX_TOLD:
            lines[_MAX_TOLD:] = [f"… and {len(lines) - _MAX_TOLD} more"]
        intro = "Skills: before a task that one of them is for, read it with get_skill."
        return "\n".join([intro, *lines])

    def tool(self) -> Tool:
        """`get_skill`."""
        made = tool(where=Where.THREAD, validate=self._find, source=self._source)
        return made(self.get_skill)

    def get_skill(self, name: str) -> str:
        """Read a skill: the instructions for one kind of task."""
        found = self._find(name)
        text = found.text()
        self._loaded[found.skill.name] = found.skill
        return text

    def _find(self, name: str) -> Found:
        """Return the skill of that name; raises InvalidArgumentsError."""
        if (found := self._found.get(key(name))) is None:
            known = ", ".join(each.name for each in self.all()) or "none"
            raise InvalidArgumentsError(f"Skill {name!r} does not exist. Available: {known}")
        return found

    def refuses(self, tool_name: str) -> str | None:
        """Why a tool may not be used: every loaded skill that names its tools has to allow it."""
        if tool_name in _ALWAYS:
            return None
        for skill in tuple(self._loaded.values()):
            if skill.allowed_tools is None:
                continue
            allowed = tuple(map(_ours, skill.allowed_tools))
            if not any(fnmatchcase(tool_name, each) for each in allowed):
                names = ", ".join(dict.fromkeys(allowed)) or "no tools"
                return f"the skill {skill.name!r} is loaded and allows only: {names}"
        return None

    def _source(self, name: str) -> str | None:
        found = self._found.get(key(name))
        if found is None or found.own:
            return None
        return f"the skill {found.skill.name!r} of this folder"

    @cached_property
    def _found(self) -> dict[str, Found]:
        return self._finder.find(self._workspace, self._personal)


def _told(found: Found) -> str:
    origin = "" if found.own else " (from this folder)"
    line = f"- {found.skill.name}{origin}: {found.skill.description}"
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"


def _ours(name: str) -> str:
    """Our name of a tool that others call otherwise; what stands in parentheses is dropped."""
    name = name.partition("(")[0]
    if name.startswith("mcp__"):
        return name.replace("__", "_")
    return _ALIASES.get(name.casefold(), name)
