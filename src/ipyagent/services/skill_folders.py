"""Folders of skills: one for each skill, with a SKILL.md and perhaps linked files."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from ipyagent.errors import AgentError
from ipyagent.plaintext import spell
from ipyagent.schema import Skill
from ipyagent.services import skill_text
from ipyagent.tools.file_rendering import decode_utf8
from ipyagent.tools.path_rules import SKILLS, WalkBudget, human_size
from ipyagent.tools.text_encoding import BOM
from ipyagent.tools.workspace import Workspace

_FILE = "SKILL.md"
_MAX_BYTES = 250_000
_MAX_FOLDERS = 200
_MAX_FILES = 2_000
_MAX_LISTED = 50
_MAX_TEXT = 28_000  # characters of a skill with its files; the model would read only a part of more


@dataclass(frozen=True)
class FoundSkill:
    """A skill and its place: `path` in `folder`; `own` means that it is the user's."""

    skill: Skill
    folder: Workspace
    path: str
    own: bool

    def text(self) -> str:
        """Return the skill as the model reads it, with the paths of its files."""
        return self._with_files() if self.own else self._with_paths()

    def _with_paths(self) -> str:
        """Return the text with links replaced by paths in the workspace, for read_file."""

        @cache
        def path_for(link: str) -> str | None:
            path = f"{self.path}/{link}"
            return path if self.folder.is_file(path) else None

        return self._prompt(skill_text.rename_links(self.skill.content, path_for))

    def _with_files(self) -> str:
        """Return the text and the files it names, as far as they fit: no tool can read them."""
        parts = [self._prompt(self.skill.content)]
        remaining = _MAX_TEXT - len(parts[0])
        named, others = self._files()
        for link in named:
            path = f"{self.path}/{link}"
            try:
                text = decode_utf8(self.folder.read_bytes(path), path).removeprefix(BOM)
            except AgentError as error:
                parts.append(f"({error})\n")
                continue
            if len(text) > remaining:
                parts.append(f"({spell(link)} is not included: {human_size(len(text))})\n")
                continue
            remaining -= len(text)
            parts.append(f"--- {spell(link)} ---\n{text}")
        if others:
            names = ", ".join(map(spell, others[:_MAX_LISTED]))
            parts.append(f"Its other files, which are not included: {names}\n")
        return "\n".join(parts)

    def _files(self) -> tuple[list[str], list[str]]:
        """Return the files that the text links to or names ("read FORMS.md"), and the others."""
        content = self.skill.content
        links = skill_text.links(content)
        named = [link for link in links if self.folder.is_file(f"{self.path}/{link}")]
        words = set(map(normalize_name, skill_text.file_names(content)))
        others: list[str] = []
        for each in self.folder.walk(self.path, WalkBudget(entries=_MAX_FILES)):
            path, name = each.path, normalize_name(each.path.rpartition("/")[2])
            hidden = f"/{path}".count("/.") or path.casefold() == _FILE.casefold()
            if each.kind == "file" and not hidden and path not in named:
                (named if name in words else others).append(path)
        return named, others

    def _prompt(self, content: str) -> str:
        text = self.skill.model_copy(update={"content": content}).to_prompt()
        return f"{text}\nThe skill's folder: {self.skill.skill_path}\n"


class SkillFinder:
    """Finds skills; `notices` say which are left out and why."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def find(self, workspace: Workspace, personal: Path | None) -> dict[str, FoundSkill]:
        """Return the skills by normalized name: the user's first, then the workspace's."""
        skills: dict[str, FoundSkill] = {}
        for folder, path, own in self._folders(workspace, personal):
            where = _display_path(folder, path, own=own)
            try:
                skill = _read_skill(folder, path, where)
            except (AgentError, ValueError) as error:
                self.notices.append(f"The skill {where} is left out: {_describe_error(error)}.")
                continue
            if skill is None:
                continue
            first = skills.setdefault(
                normalize_name(skill.name), FoundSkill(skill, folder, path, own)
            )
            if first.skill is not skill:
                self.notices.append(
                    f"The skill {where} is left out: {first.skill.skill_path} has the same "
                    f"name, {skill.name!r}."
                )
        return skills

    def _folders(
        self, workspace: Workspace, personal: Path | None
    ) -> Iterator[tuple[Workspace, str, bool]]:
        """Yield folders that may be skills: (folder, path in it, whether it is the user's)."""
        if personal is not None and os.path.lexists(personal):
            try:
                folder = Workspace(personal)
                yield from (
                    (folder, path, True) for path in self._skill_paths(folder, ".", own=True)
                )
            except AgentError as error:
                self.notices.append(f"Your skills cannot be read: {error}.")
        try:
            if workspace.stat(SKILLS) is not None:
                paths = self._skill_paths(workspace, SKILLS, own=False)
                yield from ((workspace, path, False) for path in paths)
        except AgentError as error:
            self.notices.append(f"The skills of this folder cannot be read: {error}.")

    def _skill_paths(self, folder: Workspace, path: str, *, own: bool) -> Iterator[str]:
        entries = [
            each for each in folder.scan(path, WalkBudget()) if not each.path.startswith(".")
        ]
        for entry in entries[:_MAX_FOLDERS]:
            full_path = entry.path if path == "." else f"{path}/{entry.path}"
            if entry.kind == "folder":
                yield full_path
            elif entry.kind == "link":
                where = _display_path(folder, full_path, own=own)
                self.notices.append(f"The skill {where} is left out: it is a link.")
        if len(entries) > _MAX_FOLDERS:
            self.notices.append(
                f"Only the first {_MAX_FOLDERS} skills in "
                f"{_display_path(folder, path, own=own)} are read."
            )


def normalize_name(name: str) -> str:
    """Return a key that is the same for names that look the same."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _display_path(folder: Workspace, path: str, *, own: bool) -> str:
    return spell(str(folder.root / path) if own else path)


def _describe_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(each["msg"] for each in error.errors())
    return str(error)


def _read_skill(folder: Workspace, path: str, where: str) -> Skill | None:
    """Return the skill in a folder, or None. Raises AgentError or ValueError."""
    names = (each.path for each in folder.scan(path, WalkBudget()))
    matches = sorted(name for name in names if name.casefold() == _FILE.casefold())
    if not matches:
        return None
    file = f"{path}/{matches[0]}"  # capitals come first
    text = decode_utf8(folder.read_bytes(file, _MAX_BYTES), file).removeprefix(BOM)
    return skill_text.parse(text, path.rpartition("/")[2], where)
