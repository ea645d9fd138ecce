"""Skills: instructions for one kind of task each, listed by name and read when needed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from ipyagent.config.sources import config_folder
from ipyagent.errors import InvalidArgumentsError
from ipyagent.globs import text_pattern
from ipyagent.phrases import ellipsize, limit_lines
from ipyagent.schema import Skill
from ipyagent.services.skill_folders import FoundSkill, SkillFinder, normalize_name
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.workspace import Workspace

_MAX_LISTED = 60
_MAX_LINE = 301

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
    """Return the folder of the user's own skills; it need not exist."""
    return config_folder() / "skills"


class Skills:
    """The skills of a run: those in the user's folder, then the workspace's.

    They are looked up once. A loaded skill stays loaded. If it lists allowed tools, only these may
    be used from then on.
    """

    def __init__(self, workspace: Workspace, personal: Path | None) -> None:
        self._workspace = workspace
        self._personal = personal
        self._finder = SkillFinder()
        self._loaded: dict[str, Skill] = {}

    def all(self) -> tuple[Skill, ...]:
        """Return the user's skills, then the workspace's, each sorted by folder name."""
        return tuple(each.skill for each in self._skills.values())

    def notices(self) -> tuple[str, ...]:
        """Return notices about the skills that are left out."""
        _ = self._skills
        return tuple(self._finder.notices)

    def is_own(self, skill: Skill) -> bool:
        """Return whether a skill is the user's, not the workspace's."""
        return self._skills[normalize_name(skill.name)].own

    def prompt(self) -> str:
        """Return names and descriptions for the system prompt; empty if there are no skills."""
        if not self._skills:
            return ""
        lines = [_describe_skill(each) for each in self._skills.values()]
        intro = "Skills: before a task that matches one of them, read it with get_skill."
        return "\n".join([intro, *limit_lines(lines, _MAX_LISTED)])

    def tool(self) -> Tool:
        """Return `get_skill`."""
        decorate = tool(where=Where.THREAD, validate=self._find, source=self._source)
        return decorate(self.get_skill)

    def get_skill(self, name: str) -> str:
        """Read a skill: the instructions for one kind of task."""
        entry = self._find(name)
        text = entry.text()
        self._loaded[entry.skill.name] = entry.skill
        return text

    def _find(self, name: str) -> FoundSkill:
        """Return the skill of that name; raises InvalidArgumentsError."""
        if (entry := self._skills.get(normalize_name(name))) is None:
            known = ", ".join(each.name for each in self.all()) or "none"
            raise InvalidArgumentsError(f"Skill {name!r} does not exist. Available: {known}")
        return entry

    def refuses(self, tool_name: str) -> str | None:
        """Return the reason why a tool may not be used, or None.

        Every loaded skill that lists tools must allow it."""
        if tool_name in _ALWAYS:
            return None
        for skill in tuple(self._loaded.values()):
            if skill.allowed_tools is None:
                continue
            allowed = tuple(map(_own_tool_name, skill.allowed_tools))
            if not any(text_pattern(each).match(tool_name) for each in allowed):
                names = ", ".join(dict.fromkeys(allowed)) or "no tools"
                return f"the skill {skill.name!r} is loaded and allows only: {names}"
        return None

    def _source(self, name: str) -> str | None:
        entry = self._skills.get(normalize_name(name))
        if entry is None or entry.own:
            return None
        return f"the skill {entry.skill.name!r} of this folder"

    @cached_property
    def _skills(self) -> dict[str, FoundSkill]:
        return self._finder.find(self._workspace, self._personal)


def _describe_skill(entry: FoundSkill) -> str:
    origin = "" if entry.own else " (from this folder)"
    return ellipsize(f"- {entry.skill.name}{origin}: {entry.skill.description}", _MAX_LINE)


def _own_tool_name(name: str) -> str:
    """Return our name for a tool of another program; text in parentheses is dropped."""
    name = name.partition("(")[0]
    if name.startswith("mcp__"):
        return name.replace("__", "_")
    return _ALIASES.get(name.casefold(), name)
