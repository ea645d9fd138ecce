"""The content of a SKILL.md: front matter, text, and links to files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache
from textwrap import dedent
from typing import Any
from urllib.parse import unquote

from ipyagent.json_types import JsonDict
from ipyagent.plaintext import strip_escapes, visible
from ipyagent.schema import Skill

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
        def compose_node(self, parent: Any, index: Any) -> Any:
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
    metadata = fields.get("metadata")
    return Skill(
        name=visible(_one_line(fields.get("name")) or folder)[:_MAX_NAME],
        description=description[:_MAX_DESCRIPTION],
        content=body,
        license=_one_line(fields.get("license")) or None,
        allowed_tools=_parse_tools(_find_tools(fields)),
        metadata=metadata if isinstance(metadata, dict) else {},
        skill_path=path,
    )


def rename_links(text: str, name: Callable[[str], str | None]) -> str:
    """Return the text with each relative link replaced by `name(link)`, unless that is None."""

    def rename_link(match: re.Match[str]) -> str:
        target, mark, part = match[2].strip("<>").partition("#")
        path = _normalize_link(target)
        new = path and name(path)
        if not new:
            return match[0]
        new = f"{new}{mark}{part}"
        return match[1] + (f"<{new}>" if re.search(r"[\s()]", new) else new)

    return _LINK.sub(rename_link, text)


def links(text: str) -> Iterator[str]:
    """Yield the relative links of a text that stay in its folder, each once, normalized."""
    targets = (
        _normalize_link(match[2].strip("<>").partition("#")[0]) for match in _LINK.finditer(text)
    )
    yield from dict.fromkeys(filter(None, targets))


def file_names(text: str) -> set[str]:
    """Return possible names of files in a text; of a path, the last part."""
    return {word.rpartition("/")[2].strip(".") for word in _WORD.findall(text)}


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


def _parse_value(key: str, lines: list[str]) -> Any:
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


def _find_tools(fields: JsonDict) -> Any:
    """Return the list of tools: `allowed-tools`, `allowed_tools` or `allowedTools`."""
    for key, value in fields.items():
        if re.sub("[-_]", "", str(key)).casefold() == "allowedtools":
            return value
    return None


def _parse_tools(value: object) -> tuple[str, ...] | None:
    """Return the names of tools, or None if no list is given."""
    match value:
        case None:
            return None
        case str():
            # A list that is not valid YAML, such as [Read, *], still has its brackets.
            return tuple(name.strip("[]\"'") for name in _TOOL.findall(value))
        case list() if all(isinstance(each, str) for each in value):
            return tuple(name for each in value for name in _TOOL.findall(each))
    raise ValueError("its allowed-tools is not a list of names")
