"""What a SKILL.md says: its front matter, its text, and the files that it links to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any
from urllib.parse import unquote

import yaml

from ipyagent.json_types import JsonDict
from ipyagent.plaintext import strip_escapes, visible
from ipyagent.schema import Skill

_MAX_HEADER = 20_000  # characters; YAML is slow to read
_MAX_NAME = 64
_MAX_DESCRIPTION = 1_024
_NULL = "tag:yaml.org,2002:null"
_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_MARKS = ("[", "{", '"', "'", "&", "*", "!", "|", ">", "%", "@", "`")
"""Begin something else than plain text in YAML; what follows one was cut short."""
_KEY = re.compile(r"([\"']?)([A-Za-z][\w-]*)\1[ \t]*:[ \t]*(.*)")
_WORD = re.compile(r"[\w./-]+")
_BEGUN = re.compile(r"\s*[A-Za-z][\w-]*[ \t]*:(?:\s|$)")
_LINK = re.compile(
    r"(\]\([ \t]*|^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*)(<[^<>\n]*>|[^\s()<>]+)", re.MULTILINE
)


class _Plain(yaml.SafeLoader):
    """Text, lists and mappings only: no dates, and no aliases, which grow when they are copied."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


_Plain.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] == _NULL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str, folder: str, path: str) -> Skill:
    """The skill in a text; what its front matter leaves out comes from the folder and the text.

    Raises ValueError for what cannot be read.
    """
    header, body = _split(strip_escapes(text.replace("\r\n", "\n").replace("\r", "\n")))
    said = _mapping(header)
    body = body.strip("\n")
    description = _line(said.get("description")) or _line(_first_paragraph(body))
    metadata = said.get("metadata")
    return Skill(
        name=visible(_line(said.get("name")) or folder)[:_MAX_NAME],
        description=description[:_MAX_DESCRIPTION],
        content=body,
        license=_line(said.get("license")) or None,
        allowed_tools=_tools(_of_tools(said)),
        metadata=metadata if isinstance(metadata, dict) else {},
        skill_path=path,
    )


def relinked(text: str, name: Callable[[str], str | None]) -> str:
    """The text with each relative link for which `name` knows one under another name."""

    def swap(match: re.Match[str]) -> str:
        target, mark, part = match[2].strip("<>").partition("#")
        path = _inside(target)
        new = path and name(path)
        if not new:
            return match[0]
        new = f"{new}{mark}{part}"
        return match[1] + (f"<{new}>" if re.search(r"[\s()]", new) else new)

    return _LINK.sub(swap, text)


def links(text: str) -> Iterator[str]:
    """The relative links of a text that do not lead out of its folder, each once, normalised."""
    found = (_inside(match[2].strip("<>").partition("#")[0]) for match in _LINK.finditer(text))
    yield from dict.fromkeys(filter(None, found))


def words(text: str) -> set[str]:
    """What may be names of files in a text; of a path, the last part."""
    return {word.rpartition("/")[2].strip(".") for word in _WORD.findall(text)}


def _inside(target: str) -> str | None:
    # A link is a URL, so %20 is a blank; wherever it leads, files are opened beneath the folder.
    path = posixpath.normpath(unquote(target))
    outside = path.startswith(("/", "../")) or path in {".", ".."}
    return None if outside or "\0" in path else path


def _split(text: str) -> tuple[str, str]:
    """The front matter, without its marks, and what follows."""
    lines = text.lstrip().split("\n")
    if lines[0].rstrip() != "---":
        return "", text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    if _BEGUN.match("\n".join(lines[1:])):
        raise ValueError("its front matter has no end, a line ---")
    return "", text  # the first line is a rule


def _mapping(header: str) -> JsonDict:
    if len(header) > _MAX_HEADER:
        raise ValueError(f"its front matter is longer than {_MAX_HEADER:,} characters")
    try:
        said = yaml.load(header, _Plain)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError:
        said = _line_by_line(header) or header
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ValueError("its front matter is YAML of a kind that is not read") from None
    if said is not None and not isinstance(said, dict):
        raise ValueError("its front matter is not made of keys and values")
    return said or {}


def _line_by_line(header: str) -> JsonDict:
    """What a header says that is not quite YAML: each key's lines are read for themselves.

    People write `description: Use this when: …`, and no other key is to suffer for that.
    """
    lines: dict[str, list[str]] = {}
    key = ""
    for line in dedent(header).split("\n"):
        if match := _KEY.fullmatch(line):
            key = match[2]
            lines[key] = [match[3]]
        elif key and line.startswith((" ", "\t", "- ")):
            lines[key].append(line)
    return {key: _value(key, each) for key, each in lines.items()}


def _value(key: str, lines: list[str]) -> Any:
    """A key's value, as YAML if it can be, or else as the text that stands there."""
    try:
        return yaml.load("\n".join([f"{key}: {lines[0]}", *lines[1:]]), _Plain)[key]  # noqa: S506
    except (yaml.YAMLError, ValueError, TypeError, LookupError, RecursionError):
        text = " ".join(line.strip().removeprefix("- ") for line in lines)
        if key == "name" and text.startswith(_MARKS):
            raise ValueError(
                f"its front matter is no YAML: the name {text!r} cannot be read"
            ) from None
        return text


def _line(said: object) -> str:
    """Text in one line; empty where there is none."""
    # Once more: YAML has escapes of its own.
    return " ".join(strip_escapes(said).split()) if isinstance(said, str) else ""


def _first_paragraph(text: str) -> str:
    lines: list[str] = []
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith(("#", "---")):
            lines.append(line)
        elif lines:
            break
    return " ".join(lines)


def _of_tools(said: JsonDict) -> Any:
    """What is said of tools: `allowed-tools`, `allowed_tools` or `allowedTools`."""
    for key, value in said.items():
        if re.sub("[-_]", "", str(key)).casefold() == "allowedtools":
            return value
    return None


def _tools(said: object) -> tuple[str, ...] | None:
    """The names of tools, or None where nothing is said of them."""
    match said:
        case None:
            return None
        case str():
            # A list that was no YAML, such as [Read, *], still has its marks.
            return tuple(name.strip("[]\"'") for name in _TOOL.findall(said))
        case list() if all(isinstance(each, str) for each in said):
            return tuple(name for each in said for name in _TOOL.findall(each))
    raise ValueError("its allowed-tools are no list of names")
