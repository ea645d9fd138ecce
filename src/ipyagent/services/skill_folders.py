"""Where skills lie: one folder each, with a SKILL.md and perhaps files that it links to."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from ipyagent.errors import AgentError
from ipyagent.schema import Skill
from ipyagent.services import skill_text
from ipyagent.tools.encodings import BOM
from ipyagent.tools.entries import Budget
from ipyagent.tools.names import SKILLS, human_size, shown
from ipyagent.tools.reading import text_of
from ipyagent.tools.workspace import Workspace

_FILE = "SKILL.md"
_MAX_BYTES = 250_000
_MAX_FOLDERS = 200
_MAX_FILES = 2_000
_MAX_TOLD = 50
_ROOM = 28_000  # characters for a skill and its files: of more, the model would read a part


@dataclass(frozen=True)
class Found:
    """A skill and where it lies: `path` in `folder`; `own` says that it is the person's."""

    skill: Skill
    folder: Workspace
    path: str
    own: bool

    def text(self) -> str:
        """The skill as the model reads it, with the way to its files."""
        return self._with_files() if self.own else self._with_paths()

    def _with_paths(self) -> str:
        """Links become paths in the workspace, where read_file finds the files."""

        @cache
        def named(link: str) -> str | None:
            path = f"{self.path}/{link}"
            return path if self.folder.is_file(path) else None

        return self._prompt(skill_text.relinked(self.skill.content, named))

    def _with_files(self) -> str:
        """Files that it names follow it, as far as there is room: no tool reaches them."""
        parts = [self._prompt(self.skill.content)]
        room = _ROOM - len(parts[0])
        named, others = self._files()
        for link in named:
            path = f"{self.path}/{link}"
            try:
                text = text_of(self.folder.read_bytes(path), path).removeprefix(BOM)
            except AgentError as error:
                parts.append(f"({error})\n")
                continue
            if len(text) > room:
                parts.append(f"({shown(link)} is not included: {human_size(len(text))})\n")
                continue
            room -= len(text)
            parts.append(f"--- {shown(link)} ---\n{text}")
        if others:
            names = ", ".join(map(shown, others[:_MAX_TOLD]))
            parts.append(f"Its other files, which are not included: {names}\n")
        return "\n".join(parts)

    def _files(self) -> tuple[list[str], list[str]]:
        """Its files that the text links to or names, as in "read FORMS.md", and the others."""
        content = self.skill.content
        links = skill_text.links(content)
        named = [link for link in links if self.folder.is_file(f"{self.path}/{link}")]
        words = set(map(key, skill_text.words(content)))
        others: list[str] = []
        for each in self.folder.walk(self.path, Budget(entries=_MAX_FILES)):
            path, name = each.path, key(each.path.rpartition("/")[2])
            hidden = f"/{path}".count("/.") or path.casefold() == _FILE.casefold()
            if each.kind == "file" and not hidden and path not in named:
                (named if name in words else others).append(path)
        return named, others

    def _prompt(self, content: str) -> str:
        text = self.skill.model_copy(update={"content": content}).to_prompt()
        return f"{text}\nThe skill's folder: {self.skill.skill_path}\n"


class Finder:
    """Looks for skills; `notices` say which are left out and why."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def find(self, workspace: Workspace, personal: Path | None) -> dict[str, Found]:
        """The skills by their `key`: the person's first, then the workspace's own."""
        found: dict[str, Found] = {}
        for folder, path, own in self._folders(workspace, personal):
            where = _where(folder, path, own=own)
            try:
                skill = _read(folder, path, where)
            except (AgentError, ValueError) as error:
                self.notices.append(f"The skill {where} is left out: {_why(error)}.")
                continue
            if skill is None:
                continue
            first = found.setdefault(key(skill.name), Found(skill, folder, path, own))
            if first.skill is not skill:
                self.notices.append(
                    f"The skill {where} is left out: {first.skill.skill_path} is named "
                    f"{skill.name!r}, too."
                )
        return found

    def _folders(
        self, workspace: Workspace, personal: Path | None
    ) -> Iterator[tuple[Workspace, str, bool]]:
        """The folders that may be skills: (folder, path in it, whether it is the person's)."""
        if personal is not None and os.path.lexists(personal):
            try:
                folder = Workspace(personal)
                yield from ((folder, path, True) for path in self._below(folder, ".", own=True))
            except AgentError as error:
                self.notices.append(f"Your skills cannot be read: {error}.")
        try:
            if workspace.stat(SKILLS) is not None:
                paths = self._below(workspace, SKILLS, own=False)
                yield from ((workspace, path, False) for path in paths)
        except AgentError as error:
            self.notices.append(f"The skills of this folder cannot be read: {error}.")

    def _below(self, folder: Workspace, path: str, *, own: bool) -> Iterator[str]:
        entries = [each for each in folder.scan(path, Budget()) if not each.path.startswith(".")]
        for entry in entries[:_MAX_FOLDERS]:
            below = entry.path if path == "." else f"{path}/{entry.path}"
            if entry.kind == "folder":
                yield below
            elif entry.kind == "link":
                where = _where(folder, below, own=own)
                self.notices.append(f"The skill {where} is left out: it is a link.")
        if len(entries) > _MAX_FOLDERS:
            self.notices.append(
                f"Of the skills in {_where(folder, path, own=own)}, {_MAX_FOLDERS} are read."
            )


def key(name: str) -> str:
    """Equal for names that nobody would tell apart."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _where(folder: Workspace, path: str, *, own: bool) -> str:
    return shown(str(folder.root / path) if own else path)


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(each["msg"] for each in error.errors())
    return str(error)


def _read(folder: Workspace, path: str, where: str) -> Skill | None:
    """The skill in a folder; None where there is none. Raises AgentError or ValueError."""
    names = (each.path for each in folder.scan(path, Budget()))
    spelt = sorted(name for name in names if name.casefold() == _FILE.casefold())
    if not spelt:
        return None
    file = f"{path}/{spelt[0]}"  # capitals come first
    text = text_of(folder.read_bytes(file, _MAX_BYTES), file).removeprefix(BOM)
    return skill_text.parse(text, path.rpartition("/")[2], where)
