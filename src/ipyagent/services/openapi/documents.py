"""Parse a service's description: untrusted bytes, read within limits."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, well_formed
from ipyagent.plaintext import excerpt, visible

MAX_BYTES = 20_000_000  # GitHub's has 13 million
MAX_YAML_BYTES = 2_000_000  # it takes twenty times as long to read as JSON
MAX_DEPTH = 100
MAX_NODES = 2_000_000

_VERSIONS = ("2.0", "3.0", "3.1", "3.2")

Document = JsonDict


def parse(data: bytes) -> Document:
    """Parse a JSON or YAML description; raises ConfigError."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        is_wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as of PowerShell
        text = data.decode("utf-16" if is_wide else "utf-8-sig")
        document = _parse_json(text) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text)
        if not isinstance(document, dict) or not isinstance(document.get("paths"), dict):
            raise ConfigError("it is not an OpenAPI description: it has no `paths`")
        _check_bounds(document)
        _normalize_json(document)
        _check_version(document)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ConfigError("it is not text in UTF-8") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise read_error(error) from None
    return document


def read_error(error: Exception) -> ConfigError:
    """Return the error for an unexpected failure while reading."""
    return ConfigError(f"it cannot be read: {excerpt(error, 200)}")


def _check_version(document: Document) -> None:
    version = document.get("swagger") or document.get("openapi") or "nothing"
    declared = f"{version}.0" if version in (2, 3, "2", "3") else str(version)
    supported = next((each for each in _VERSIONS if declared.startswith(each)), None)
    if supported is None or (supported == "2.0") != ("swagger" in document):
        raise ConfigError(f"its version is {visible(declared[:20])}; 2.0 and 3.0 to 3.2 are known")


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except ValueError as error:
        raise ConfigError(f"it is not JSON ({error})") from None


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _parse_yaml(text: str) -> Any:
    import yaml

    if len(text) > MAX_YAML_BYTES:
        raise ConfigError(f"as YAML it is larger than {MAX_YAML_BYTES:,} bytes; use JSON")
    loader = _yaml_loader()
    try:
        _check_flat(yaml.parse(text, loader))
        return yaml.load(text, loader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        if "nesting depth" in str(error):  # newer versions of LibYAML have a limit
            raise ConfigError("it is nested too deeply") from None
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f" (line {mark.line + 1}: {excerpt(problem, 100)})" if mark else ""
        raise ConfigError(f"it is neither JSON nor YAML{place}") from None


@cache
def _yaml_loader() -> Any:
    """Return a loader of YAML 1.2 without types that JSON lacks; all keys are text.

    PyYAML reads YAML 1.1, where NO is false, 010 is 8 and 12:30 is 750.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    prefix = "tag:yaml.org,2002:"

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            self.flatten_mapping(node)
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    key.tag = f"{prefix}str"
            return super().construct_mapping(node, deep)

        def construct_int(self, node: Any) -> int:
            text = str(self.construct_scalar(node))
            return int(text, 0 if text[:2] in ("0x", "0o") else 10)

    Loader.add_constructor(f"{prefix}int", Loader.construct_int)
    Loader.add_constructor(f"{prefix}merge", base.construct_yaml_str)  # where it is a value
    for kind, (pattern, first) in _YAML_WORDS.items():
        Loader.add_implicit_resolver(f"{prefix}{kind}", re.compile(f"(?:{pattern})$"), first)
    return Loader


_YAML_WORDS = {
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": ("true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?\d+|0o[0-7]+|0x[\da-fA-F]+", [*"-+0123456789"]),
    "float": (r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?", [*"-+.0123456789"]),
    "merge": ("<<", ["<"]),
}
"""Plain words that are no text, by type: a pattern and the characters it may begin with."""


def _check_flat(events: Iterator[object]) -> None:
    """Raise if building the values is unsafe: LibYAML's deep nesting ends the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")


def _check_bounds(document: Document) -> None:
    """Raise if the document, aliases followed, is endless, too large or not JSON."""
    for count, (depth, node) in enumerate(_walk(document)):
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")
        if count > MAX_NODES:
            raise ConfigError(f"it holds more than {MAX_NODES:,} values")
        if not isinstance(node, dict | list | str | int | float | None):
            raise ConfigError(f"it holds a {type(node).__name__}, which JSON cannot represent")


def _normalize_json(document: Document) -> None:
    """Convert all text to valid Unicode."""
    done: set[int] = set()  # a value with aliases comes up many times
    stack: list[Any] = [document]
    while stack:
        node = stack.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        if isinstance(node, dict):
            items = {well_formed(str(key)): _clean_text(each) for key, each in node.items()}
            node.clear()
            node.update(items)
        else:
            node[:] = map(_clean_text, node)
        inside = node.values() if isinstance(node, dict) else node
        stack.extend(each for each in inside if isinstance(each, dict | list))


def _clean_text(value: object) -> Any:
    return well_formed(value) if isinstance(value, str) else value


def _walk(value: object) -> Iterator[tuple[int, Any]]:
    """Yield all values in it, each with its depth."""
    stack: list[tuple[int, Any]] = [(0, value)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        if isinstance(node, dict):
            stack.extend((depth + 1, each) for each in node.values())
        elif isinstance(node, list):
            stack.extend((depth + 1, each) for each in node)
