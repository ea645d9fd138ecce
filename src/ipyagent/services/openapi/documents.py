"""Parse a service's description: untrusted bytes, read within limits."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ipyagent.errors import ConfigError
from ipyagent.json_types import MAX_DEPTH, JsonDict, as_json
from ipyagent.plaintext import excerpt, visible

MAX_BYTES = 20_000_000  # GitHub's has 13 million
MAX_YAML_BYTES = 2_000_000  # it takes twenty times as long to read as JSON
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
        given = json.loads(text) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text)
        if not isinstance(given, dict) or not isinstance(given.get("paths"), dict):
            raise ConfigError("it is not an OpenAPI description: it has no `paths`")
        _check_size(given)
        document: Document = as_json(given)
        _check_version(document)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ConfigError("it is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"it is not JSON ({error})") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise read_error(error) from None
    return document


def read_file(path: Path) -> Document:
    """Return the description in a file; raises ConfigError."""
    try:
        with path.open("rb") as file:
            return parse(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_error(error: Exception) -> ConfigError:
    """Return the error for an unexpected failure while reading."""
    return ConfigError(f"it cannot be read: {excerpt(error, 200)}")


def _check_version(document: Document) -> None:
    version = document.get("swagger") or document.get("openapi") or "nothing"
    declared = f"{version}.0" if version in (2, 3, "2", "3") else str(version)
    supported = next((each for each in _VERSIONS if declared.startswith(each)), None)
    if supported is None or (supported == "2.0") != ("swagger" in document):
        raise ConfigError(f"its version is {visible(declared[:20])}; 2.0 and 3.0 to 3.2 are known")


_YAML_WORDS = {
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": ("true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?\d+|0o[0-7]+|0x[\da-fA-F]+", [*"-+0123456789"]),
    "float": (r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?", [*"-+.0123456789"]),
    "merge": ("<<", ["<"]),
}
"""Plain words that are no text, by type: a pattern and the characters it may begin with."""

_TAG = "tag:yaml.org,2002:"
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """A loader of YAML 1.2 without types that JSON lacks; all keys are text.

    PyYAML reads YAML 1.1, where NO is false, 010 is 8 and 12:30 is 750.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        self.flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep)

    def construct_int(self, node: Any) -> int:
        text = str(self.construct_scalar(node))
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)


_Loader.add_constructor(f"{_TAG}int", _Loader.construct_int)
_Loader.add_constructor(f"{_TAG}merge", _SafeLoader.construct_yaml_str)  # where it is a value
for _kind, (_pattern, _first) in _YAML_WORDS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"(?:{_pattern})$"), _first)


def _parse_yaml(text: str) -> Any:
    if len(text) > MAX_YAML_BYTES:
        raise ConfigError(f"as YAML it is larger than {MAX_YAML_BYTES:,} bytes; use JSON")
    try:
        _check_flat(yaml.parse(text, _Loader))
        return yaml.load(text, _Loader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        if "nesting depth" in str(error):  # newer versions of LibYAML have a limit
            raise ConfigError("it is nested too deeply") from None
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f" (line {mark.line + 1}: {excerpt(problem, 100)})" if mark else ""
        raise ConfigError(f"it is neither JSON nor YAML{place}") from None


def _check_flat(events: Iterator[object]) -> None:
    """Raise if building the values is unsafe: LibYAML's deep nesting ends the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")


def _check_size(document: Document) -> None:
    """Raise if the document, aliases followed, is endless or too large."""
    stack: list[object] = [document]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    raise ConfigError(f"it holds more than {MAX_NODES:,} values, or itself")
