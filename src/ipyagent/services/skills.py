"""Skills: instructions for one kind of task each, listed by name and read when needed.

A skill is a folder with a SKILL.md, which has front matter, text, and links to files.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from ipyagent.config.sources import config_folder
from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.globs import text_pattern
from ipyagent.json_types import JsonDict, object_of
from ipyagent.plaintext import ellipsize, human_size, limit_lines, spell, strip_escapes, visible
from ipyagent.schema import Skill
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_change import BOM, decode_utf8
from ipyagent.tools.path_rules import SKILLS, WalkBudget
from ipyagent.tools.workspace import Workspace

_MAX_HEADER = 20_000  # characters; YAML is slow to read
_MAX_NAME = 64
_MAX_DESCRIPTION = 1_024
_NULL = "tag:yaml.org,2002:null"
_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_YAML_MARKS = ("[", "{", '"', "'", "&", "*", "!", "|", ">", "%", "@", "`")
"""Characters that cannot start plain text in YAML. A name that starts with one was cut short."""
_KEY = re.compile(r"([\"']?)([A-Za-z][\w-]*)\1[ \t]*:[ \t]*(.*)")
_WORD = re.compile(r"[\w./-]+")
_KEY_LINE = re.compile(r"\s*[A-Za-z][\w-]*[ \t]*:(?:\s|$)")
_LINK = re.compile(
    r"(\]\([ \t]*|^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*)(<[^<>\n]*>|[^\s()<>]+)", re.MULTILINE
)


@cache
def _text_loader() -> Any:
    """Return a loader of text, lists and mappings: no dates, and no aliases, which grow."""
    import yaml

    class TextLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    TextLoader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] == _NULL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return TextLoader


def parse(text: str, folder: str, path: str) -> Skill:
    """Parse a skill; missing front matter is taken from the folder and the text.

    Raises ValueError if it cannot be read.
    """
    header, body = _split_front_matter(
        strip_escapes(text.replace("\r\n", "\n").replace("\r", "\n"))
    )
    fields = _parse_front_matter(header)
    body = body.strip("\n")
    description = _one_line(fields.get("description")) or _one_line(_first_paragraph(body))
    return Skill(
        name=visible(_one_line(fields.get("name")) or folder)[:_MAX_NAME],
        description=description[:_MAX_DESCRIPTION],
        content=body,
        license=_one_line(fields.get("license")) or None,
        allowed_tools=_parse_tools(fields),
        metadata=object_of(fields.get("metadata")),
        skill_path=path,
    )


def rename_links(text: str, paths: Mapping[str, str]) -> str:
    """Return the text with each relative link replaced by its path, if it has one."""

    def rename_link(match: re.Match[str]) -> str:
        target, mark, part = match[2].strip("<>").partition("#")
        path = paths.get(_normalize_link(target) or "")
        if path is None:
            return match[0]
        new = f"{path}{mark}{part}"
        return match[1] + (f"<{new}>" if re.search(r"[\s()]", new) else new)

    return _LINK.sub(rename_link, text)


def find_links(text: str) -> Iterator[str]:
    """Yield the relative links of a text that stay in its folder, each once, normalized."""
    targets = (
        _normalize_link(match[2].strip("<>").partition("#")[0]) for match in _LINK.finditer(text)
    )
    yield from dict.fromkeys(filter(None, targets))


def _normalize_link(target: str) -> str | None:
    # A link is a URL, so %20 is a space. Files are opened safely below the folder in any case.
    path = posixpath.normpath(unquote(target))
    outside = path.startswith(("/", "../")) or path in {".", ".."}
    return None if outside or "\0" in path else path


def _split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter, without its marks, and the text after it."""
    lines = text.lstrip().split("\n")
    if lines[0].rstrip() != "---":
        return "", text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    if _KEY_LINE.match("\n".join(lines[1:])):
        raise ValueError("its front matter has no closing line ---")
    return "", text  # the first line is a horizontal rule


def _parse_front_matter(header: str) -> JsonDict:
    if len(header) > _MAX_HEADER:
        raise ValueError(f"its front matter is longer than {_MAX_HEADER:,} characters")
    import yaml  # most folders have no skills

    try:
        parsed = yaml.load(header, _text_loader())  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError:
        parsed = _line_by_line(header) or header
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ValueError("its front matter uses YAML features that are not supported") from None
    if parsed is not None and not isinstance(parsed, dict):
        raise ValueError("its front matter is not a mapping of keys to values")
    return parsed or {}


def _line_by_line(header: str) -> JsonDict:
    """Parse a header that is not quite YAML: each key's lines separately.

    Authors write `description: Use this when: …`, which should not spoil the other keys.
    """
    lines: dict[str, list[str]] = {}
    key = ""
    for line in dedent(header).split("\n"):
        if match := _KEY.fullmatch(line):
            key = match[2]
            lines[key] = [match[3]]
        elif key and line.startswith((" ", "\t", "- ")):
            lines[key].append(line)
    return {key: _parse_value(key, each) for key, each in lines.items()}


def _parse_value(key: str, lines: list[str]) -> object:
    """Return a key's value, parsed as YAML if possible, or else as plain text."""
    import yaml

    text = "\n".join([f"{key}: {lines[0]}", *lines[1:]])
    try:
        return yaml.load(text, _text_loader())[key]  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, LookupError, RecursionError):
        text = " ".join(line.strip().removeprefix("- ") for line in lines)
        if key == "name" and text.startswith(_YAML_MARKS):
            raise ValueError(
                f"its front matter is not valid YAML: the name {text!r} cannot be read"
            ) from None
        return text


def _one_line(value: object) -> str:
    """Return text in one line; empty if there is none."""
    # Stripped again, because YAML has escape sequences of its own.
    return " ".join(strip_escapes(value).split()) if isinstance(value, str) else ""


def _first_paragraph(text: str) -> str:
    lines: list[str] = []
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith(("#", "---")):
            lines.append(line)
        elif lines:
            break
    return " ".join(lines)


def _parse_tools(fields: JsonDict) -> tuple[str, ...] | None:
    """Return the names in `allowed-tools`, `allowed_tools` or `allowedTools`; None without it."""
    values = (
        v for k, v in fields.items() if re.sub("[-_]", "", str(k)).casefold() == "allowedtools"
    )
    match next(values, None):
        case None:
            return None
        case str(text):
            # A list that is not valid YAML, such as [Read, *], still has its brackets.
            return tuple(name.strip("[]\"'") for name in _TOOL.findall(text))
        case list(names) if all(isinstance(each, str) for each in names):
            return tuple(name for each in names for name in _TOOL.findall(each))
    raise ValueError("its allowed-tools is not a list of names")


_FILE = "SKILL.md"
_MAX_BYTES = 250_000
_MAX_FOLDERS = 200
_MAX_FILES = 2_000
_MAX_OTHERS = 50
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
        content = self.skill.content
        links = (each for each in find_links(content) if self.folder.is_file(self._path_of(each)))
        paths = {each: self._path_of(each) for each in links}
        return self._with_files(paths) if self.own else self._prompt(rename_links(content, paths))

    def _with_files(self, linked: Mapping[str, str]) -> str:
        """Return the text and the files it names, as far as they fit: no tool can read them."""
        parts = [self._prompt(self.skill.content)]
        remaining = _MAX_TEXT - len(parts[0])
        named, others = self._find_files(linked)
        for link in named:
            path = self._path_of(link)
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
            names = ", ".join(map(spell, others[:_MAX_OTHERS]))
            parts.append(f"Its other files, which are not included: {names}\n")
        return "\n".join(parts)

    def _find_files(self, linked: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the files that the text links to or names ("read FORMS.md"), and the others."""
        named, others = [*linked], list[str]()
        paths = (word.rpartition("/") for word in _WORD.findall(self.skill.content))
        words = {normalize_name(name.strip(".")) for _, _, name in paths}
        for each in self.folder.walk(self.path, WalkBudget(entries=_MAX_FILES)):
            path, name = each.path, normalize_name(each.path.rpartition("/")[2])
            hidden = f"/{path}".count("/.") or path.casefold() == _FILE.casefold()
            if each.kind == "file" and not hidden and path not in named:
                (named if name in words else others).append(path)
        return named, others

    def _path_of(self, link: str) -> str:
        return f"{self.path}/{link}"

    def _prompt(self, content: str) -> str:
        text = self.skill.model_copy(update={"content": content}).to_prompt()
        return f"{text}\nThe skill's folder: {self.skill.skill_path}\n"


def normalize_name(name: str) -> str:
    """Return a key that is the same for names that look the same."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _display_path(folder: Workspace, path: str, *, own: bool) -> str:
    return spell(str(folder.root / path) if own else path)


def _read_skill(folder: Workspace, path: str, where: str) -> Skill | None:
    """Return the skill in a folder, or None. Raises AgentError or ValueError."""
    names = (each.path for each in folder.scan(path, WalkBudget()))
    matches = sorted(name for name in names if name.casefold() == _FILE.casefold())
    if not matches:
        return None
    file = f"{path}/{matches[0]}"  # capitals come first
    text = decode_utf8(folder.read_bytes(file, _MAX_BYTES), file).removeprefix(BOM)
    return parse(text, path.rpartition("/")[2], where)


_MAX_LISTED = 60
_MAX_LINE = 301

_ALWAYS = frozenset({"get_skill", "todo_write", "ask_user"})
_ALIASES = {
    "read": "read_file", "write": "write_file", "edit": "edit_file", "multiedit": "edit_file",
    "bash": "run_shell", "shell": "run_shell", "grep": "search_files", "glob": "list_files",
    "ls": "list_files", "python": "run_python", "notebookread": "read_notebook",
    "notebookedit": "edit_cell",
}  # fmt: skip


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
        self._notices: list[str] = []
        self._loaded: dict[str, Skill] = {}

    def all(self) -> tuple[Skill, ...]:
        """Return the user's skills, then the workspace's, each sorted by folder name."""
        return tuple(each.skill for each in self._skills.values())

    def notices(self) -> tuple[str, ...]:
        """Return notices about the skills that are left out."""
        _ = self._skills
        return tuple(self._notices)

    def is_own(self, skill: Skill) -> bool:
        """Return whether a skill is the user's, not the workspace's."""
        return self._skills[normalize_name(skill.name)].own

    def prompt(self) -> str:
        """Return names and descriptions for the system prompt; empty if there are no skills."""
        if not self._skills:
            return ""
        lines = []
        for each in self._skills.values():
            origin = "" if each.own else " (from this folder)"
            line = f"- {each.skill.name}{origin}: {each.skill.description}"
            lines.append(ellipsize(line, _MAX_LINE))
        intro = "Skills: before a task that matches one of them, read it with get_skill."
        return "\n".join([intro, *limit_lines(lines, _MAX_LISTED)])

    def tool(self) -> Tool:
        """Return `get_skill`."""
        return tool(where=Where.THREAD, validate=self._find, source=self._source)(self.get_skill)

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
        """The skills by normalized name; of two with the same name, the first."""
        skills: dict[str, FoundSkill] = {}
        for folder, path, own in self._iter_folders():
            where = _display_path(folder, path, own=own)
            try:
                skill = _read_skill(folder, path, where)
            except (AgentError, ValueError) as error:
                invalid = error.errors() if isinstance(error, ValidationError) else []
                reason = "; ".join(each["msg"] for each in invalid) or error
                self._notices.append(f"The skill {where} is left out: {reason}.")
                continue
            if skill is None:
                continue
            found = FoundSkill(skill, folder, path, own)
            first = skills.setdefault(normalize_name(skill.name), found)
            if first is not found:
                self._notices.append(
                    f"The skill {where} is left out: {first.skill.skill_path} has the same "
                    f"name, {skill.name!r}."
                )
        return skills

    def _iter_folders(self) -> Iterator[tuple[Workspace, str, bool]]:
        """Yield folders that may be skills: (folder, path in it, whether it is the user's)."""
        try:
            if self._personal is not None and os.path.lexists(self._personal):
                yield from self._iter_skills(Workspace(self._personal), ".", own=True)
        except AgentError as error:
            self._notices.append(f"Your skills cannot be read: {error}.")
        try:
            if self._workspace.stat(SKILLS) is not None:
                yield from self._iter_skills(self._workspace, SKILLS, own=False)
        except AgentError as error:
            self._notices.append(f"The skills of this folder cannot be read: {error}.")

    def _iter_skills(
        self, folder: Workspace, path: str, *, own: bool
    ) -> Iterator[tuple[Workspace, str, bool]]:
        entries = [
            each for each in folder.scan(path, WalkBudget()) if not each.path.startswith(".")
        ]
        for entry in entries[:_MAX_FOLDERS]:
            full_path = entry.path if path == "." else f"{path}/{entry.path}"
            if entry.kind == "folder":
                yield folder, full_path, own
            elif entry.kind == "link":
                where = _display_path(folder, full_path, own=own)
                self._notices.append(f"The skill {where} is left out: it is a link.")
        if len(entries) > _MAX_FOLDERS:
            where = _display_path(folder, path, own=own)
            self._notices.append(f"Only the first {_MAX_FOLDERS} skills in {where} are read.")


def _own_tool_name(name: str) -> str:
    """Return our name for a tool of another program; text in parentheses is dropped."""
    name = name.partition("(")[0]
    if name.startswith("mcp__"):
        return name.replace("__", "_")
    return _ALIASES.get(name.casefold(), name)
