"""Rules of the policy (calls are denied, asked about or allowed), and types of settings' values.

    policy:
      rules:
        - effect: deny
          tool: read_file, search_files
          path: patients/**
          reason: patients' data stays here
        - effect: allow
          tool: write_file
          path: reports/*.md
          examples:
            match: [{tool: write_file, arguments: {path: reports/may.md}}]
            no_match: [{tool: write_file, arguments: {path: reports/../setup.py}}]

Names of tools and paths are globs (`ipyagent.globs`). In arguments only `*` and `?` are special: a
list is compared as JSON, where brackets are ordinary.

In doubt a pattern is read as the stricter rule: a rule that denies or asks also matches other
spellings, names with the literal brackets of the pattern, and everything in a matching folder; a
rule that allows must match every file of the call exactly.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import to_jsonable_python

from ipyagent.globs import literal_text, path_pattern, text_pattern
from ipyagent.json_types import JsonMapping
from ipyagent.plaintext import flatten
from ipyagent.schema import Model


class Section(Model):
    """A section of the settings. Values may be text, as in environment variables."""

    # A value in the wrong place may be a key.
    model_config = ConfigDict(hide_input_in_errors=True)


SECRET_HOLDERS = WeakValueDictionary[int, object]()
"""The secrets of all settings, and the layers in which they are as they were written."""


def forget_secrets() -> None:
    """Empty all objects that hold secrets of settings."""
    for each in [*SECRET_HOLDERS.values()]:
        vars(each).update(_secret_value="", values={}, text=b"")


PARTIAL = {"partial": True}
"""Validation context for a layer of settings, which need not be complete."""


def _split_names(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


def _expand_user(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("there is no home directory of that user") from None


def _check_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("this is not an address such as https://example.org/v1")
    if "@" in parts.netloc:
        raise ValueError("an address must not hold a name or password; use a key's variable")
    return url


def _check_variable(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError("this is the NAME of an environment variable, not the secret in it")
    return name


def _check_import_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        module, colon, name = path.partition(":")
        if not (colon and all(part.isidentifier() for part in f"{module}.{name}".split("."))):
            raise ValueError("expected import paths such as package.module:function")
    return paths


Secret = Annotated[SecretStr, AfterValidator(lambda it: SECRET_HOLDERS.setdefault(id(it), it))]
"""A text that is shown as stars."""

Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
"""Names, as a list or separated by commas."""

ImportPaths = Annotated[Names, AfterValidator(_check_import_paths)]
"""Import paths of functions, such as `package.module:function`."""

UserPath = Annotated[Path, AfterValidator(_expand_user)]
"""A path; `~` is the user's home directory."""

Address = Annotated[str, AfterValidator(_check_address)]
"""The address of a service: http or https, without credentials."""

Variable = Annotated[str, AfterValidator(_check_variable)]
"""The name of an environment variable that holds a secret."""


COMMANDS = {"run_shell": "command", "run_python": "code", "python_script": "content"}
"""Tools that run the content of an argument."""

BUILT_IN_TOOLS = frozenset(
    {
        "list_files", "read_file", "write_file", "edit_file", "delete_file", "search_files",
        "inspect_file", "list_variables", "inspect_variable", "run_python", "query",
        "read_notebook", "insert_cell", "edit_cell", "run_cell", "python_script", "run_shell",
        "record_note", "recall_notes", "todo_write", "ask_user", "delegate",
    }
)  # fmt: skip
"""Names of built-in tools, switched on or not, for which others may be mistaken."""

_ALIKE = 0.8
"""How similar a name is to that of a built-in tool if it is a slip of the pen."""

MAX_PATTERN = 300

# Nothing nested deeper: YAML can write a file that is small and endless.
Scalar = bool | int | float | str | None
PlainValue = Scalar | tuple[Scalar, ...] | dict[str, Scalar]

Glob = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN)]


def _check_path_glob(glob: str) -> str:
    """Return the pattern; raises ValueError if no path can match it."""
    if ".." in re.split(r"[/\\]", glob) or glob.startswith("~"):
        raise ValueError("write a path from the workspace's root, or a whole one from /")
    return glob


def _check_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names; raises ValueError for one that is nearly a built-in tool's."""
    for name in names:
        plain = fold_text(name)
        near = get_close_matches(plain.replace("-", "_"), BUILT_IN_TOOLS, n=1, cutoff=_ALIKE)
        if near and plain not in BUILT_IN_TOOLS and not {*name} & {*"*?["}:
            raise ValueError(
                f"there is no built-in tool {name}; did you mean {near[0]}? For a tool of your own "
                f"with that name, write {name}*"
            )
    return names


def argument_text(value: object) -> str:
    """Return an argument as patterns see it: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON makes no difference
    plain = to_jsonable_python(value, fallback=str)
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Subject:
    """A call as rules see it.

    `list_paths` returns the paths that it concerns, relative to `root`; `command` is the argument
    that is run, `part_of` the tool by which the model calls this one.
    """

    tool: str
    arguments: JsonMapping
    root: Path | None
    list_paths: Callable[[], Iterable[str]]
    command: str | None = None
    part_of: str | None = None
    _folded: dict[str, str] = field(default_factory=dict)

    def folded_argument(self, name: str) -> str:
        """Return the text of an argument, folded; a missing argument counts as null."""
        if name not in self._folded:
            self._folded[name] = fold_text(argument_text(self.arguments.get(name)))
        return self._folded[name]

    @cached_property
    def folded_paths(self) -> tuple[str, ...]:
        """Return the paths of the call, in every spelling."""
        return tuple(spelling for path in self._paths for spelling in path.folded_forms)

    @cached_property
    def path_forms(self) -> frozenset[tuple[str, ...]]:
        """Return how each path is written, and where it really leads."""
        return frozenset(way for path in self._paths for way in path)

    @cached_property
    def _paths(self) -> tuple[PathSpellings, ...]:
        return tuple(path_spellings(path, self.root) for path in self.list_paths())


class Example(Section):
    """A call that a rule should or should not match; its path is the argument `path`."""

    tool: str
    arguments: dict[str, PlainValue] = Field(default_factory=dict)

    def subject(self) -> Subject:
        """Return the example as rules see it."""
        path = self.arguments.get("path")
        named = (path,) if isinstance(path, str) else ()
        command = COMMANDS.get(self.tool)
        return Subject(self.tool, self.arguments, None, lambda: named, command)


class Examples(Section):
    """Calls against which a rule is checked when it is loaded."""

    match: tuple[Example, ...] = ()
    no_match: tuple[Example, ...] = ()


class Rule(Section):
    """The effect on calls that match all of its patterns."""

    effect: Literal["allow", "ask", "deny"]
    tool: Annotated[Names, AfterValidator(_check_tools)] = ("*",)
    """Names or patterns of tools; a call must match one of them."""
    arguments: dict[str, Scalar] = Field(default_factory=dict)
    """Required values of arguments: text is a pattern, everything else a value."""
    path: Annotated[Glob, AfterValidator(_check_path_glob)] | None = None
    reason: str | None = Field(default=None, max_length=MAX_PATTERN)
    """The reason given to the model and the user."""
    examples: Examples = Examples()
    source: str = ""
    """The place of the rule; filled in when it is loaded."""

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str, info: ValidationInfo) -> str:
        if source and info.context == PARTIAL:
            raise ValueError("this is filled in, not set")
        return source

    @model_validator(mode="after")
    def _check_rule(self) -> Rule:
        if not self.tool:
            raise ValueError("tool names no tool")
        if self.effect == "allow":
            self._check_narrow()
        for name, expected in (("match", True), ("no_match", False)):
            for n, example in enumerate(getattr(self.examples, name)):
                fits = self.names_tool(example.tool) and self.matches(example.subject())
                if fits != expected:
                    does = "does not fit" if expected else "fits"
                    raise ValueError(f"the rule {does} the call in its examples.{name}.{n}")
        return self

    def _check_narrow(self) -> None:
        if not all(map(literal_text, self.tool)):
            raise ValueError("an allow rule has to name a tool; agent.confirm_mode=yolo allows all")
        for tool, name in COMMANDS.items():
            pattern = self.arguments.get(name)
            if isinstance(pattern, str) and {*pattern} & {"*", "?"} and self.names_tool(tool):
                raise ValueError(
                    f"{tool} is not allowed by a pattern, because what runs after `;` or in `$()` "
                    f"would fit it as well; write the whole {name} without * and ?"
                )

    def __str__(self) -> str:
        patterns = [f"{name}={argument_text(value)}" for name, value in self.arguments.items()]
        path = [f"path {self.path}"] if self.path else []
        return flatten(", ".join([f"{self.effect} {', '.join(self.tool)}", *path, *patterns]))

    @property
    def explanation(self) -> str:
        """The rule in one line, for the model or the user."""
        does = {"allow": "allows", "ask": "asks about", "deny": "denies"}[self.effect]
        where = self.source or "a rule"
        return flatten(f"{where} {does} it: {self.reason}" if self.reason else f"{where}: {self}")

    def names_tool(self, tool: str) -> bool:
        """Return whether the rule concerns calls of that tool at all."""
        names = (tool,) if self.effect == "allow" else (fold_text(tool), tool)
        return any(pattern.match(name) for pattern in self._tool_patterns for name in names)

    def matches(self, call: Subject) -> bool:
        """Return whether the rule matches this call of a tool that it names."""
        if self.arguments and not all(
            self._matches_argument(call, name) for name in self.arguments
        ):
            return False
        return self.path is None or self._matches_path(call)

    def _matches_argument(self, call: Subject, name: str) -> bool:
        if self.effect != "allow":
            return bool(self._argument_patterns[name].match(call.folded_argument(name)))
        if name not in call.arguments:
            return False
        value = call.arguments[name]
        if name == call.command:  # a pattern would also match commands appended to the intended one
            return bool(self.arguments[name] == value)
        return bool(self._argument_patterns[name].match(argument_text(value)))

    def _matches_path(self, call: Subject) -> bool:
        if self.effect == "allow":
            return bool(call.path_forms) and all(
                any(map(self._matches_pattern, way)) for way in call.path_forms
            )
        paths = (
            call.folded_paths
            if self._path_is_plain
            else (*call.folded_paths, *chain(*call.path_forms))
        )
        return any(map(self._matches_pattern, paths))

    def _matches_pattern(self, path: str) -> bool:
        return any(pattern.match(path) for pattern in self._path_patterns)

    @cached_property
    def _tool_patterns(self) -> tuple[re.Pattern[str], ...]:
        names = (each for name in self.tool for each in (self._fold_unless_allowing(name), name))
        patterns = (
            text_pattern(name, classes=each) for name in names for each in self._bracket_readings
        )
        return tuple(dict.fromkeys(patterns))

    @cached_property
    def _argument_patterns(self) -> dict[str, re.Pattern[str]]:
        return {name: self._argument_pattern(value) for name, value in self.arguments.items()}

    @property
    def _path_is_plain(self) -> bool:
        return self.path is None or "[" not in self.path

    @cached_property
    def _path_patterns(self) -> tuple[re.Pattern[str], ...]:
        if self.path is None:
            return ()
        if self.effect == "allow":
            return (path_pattern(self.path),)
        # Folding may break a class ("[Z-a]", "[!A]"), so it is tried as it is written, too.
        spelled = (fold_path(self.path), self.path)[: 1 if self._path_is_plain else 2]
        patterns = (
            path_pattern(each, below=True, classes=classes)
            for each in spelled
            for classes in self._bracket_readings
        )
        return tuple(dict.fromkeys(patterns))

    @property
    def _bracket_readings(self) -> tuple[bool, ...]:
        """With classes; for rules that restrict, brackets may also be literal."""
        return (True,) if self.effect == "allow" else (True, False)

    def _argument_pattern(self, value: Scalar) -> re.Pattern[str]:
        if isinstance(value, str):
            return text_pattern(self._fold_unless_allowing(value), classes=False)
        return re.compile(re.escape(self._fold_unless_allowing(argument_text(value))) + r"\Z")

    def _fold_unless_allowing(self, text: str) -> str:
        return text if self.effect == "allow" else fold_text(text)


def keeps_back(rules: Iterable[Rule], root: Path, tool: str, path: str) -> bool:
    """Return whether a rule denies a tool that reads a whole folder a file in it, or asks."""
    call = Subject(tool, {"path": path}, root, lambda: (path,))
    named = (rule for rule in rules if rule.effect != "allow" and rule.path is not None)
    return any(rule.names_tool(tool) and rule.matches(call) for rule in named)


def _parse_rules(value: object) -> object:
    """Parse a list given as text (environment, `%agent config`): YAML's short form, or JSON."""
    if not isinstance(value, str):
        return value
    import yaml  # rules are rarely text

    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError("this is not a list of rules in YAML or JSON") from None


class PolicyConfig(Section):
    """Rules for calls. The rules of all sources apply together."""

    rules: Annotated[tuple[Rule, ...], BeforeValidator(_parse_rules)] = ()
    """The rules; those of all sources apply together."""


def fold_text(text: str) -> str:
    """Normalize text that looks the same: case, width, invisible characters."""
    if text.isascii() and text.isprintable():
        return text.lower()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in plain if unicodedata.category(c) not in {"Cf", "Cc", "Mn"})


def fold_path(path: str) -> str:
    """Normalize a path that some file system takes for the same."""
    parts = fold_text(path).replace("\\", "/").split("/")
    return "/".join(part.split(":")[0].rstrip(". ") or part for part in parts)


class PathSpellings(NamedTuple):
    """The ways in which one path can be written, each with a slash at its end.

    `lexical` is the path as given, `real` the path with links resolved; both relative to the root
    if they lie there, and absolute. `folded_forms` are these and what some file system takes for
    the same.
    """

    lexical: tuple[str, ...]
    real: tuple[str, ...]

    @property
    def folded_forms(self) -> frozenset[str]:
        """All spellings, folded."""
        every = {fold_path(each) for each in {*self.lexical, *self.real}}
        return frozenset(every | {_normalize_path(each) + "/" for each in every})


def path_spellings(path: str, root: Path | None) -> PathSpellings:
    """Return the spellings of a path, relative to `root` or absolute; None: no root."""
    if root is None:
        forms = _path_forms(_normalize_path(os.path.join("/workspace", path)), ("/workspace",))  # noqa: PTH118
        return PathSpellings(forms, forms)
    start = os.path.abspath(root)  # noqa: PTH100 - as texts, which is faster than paths
    roots = _root_spellings(start)
    full = os.path.join(start, path)  # noqa: PTH118 - links are followed before it is normalised
    try:
        real = os.path.realpath(full)
    except (OSError, ValueError):  # no name that a file could have
        return PathSpellings(_path_forms(_normalize_path(full), roots), ())
    return PathSpellings(
        _path_forms(_normalize_path(full), roots), _path_forms(_normalize_path(real), roots)
    )


@cache
def _root_spellings(root: str) -> tuple[str, ...]:
    """Return the root as given and with links resolved; an opened workspace does not move."""
    return tuple({_normalize_path(root), _normalize_path(os.path.realpath(root))})


def _path_forms(full: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    inside = {full[len(root.rstrip("/")) + 1 :] or "." for root in roots if _is_under(full, root)}
    return (f"{full}/", *(f"{each}/" for each in inside))


def _is_under(full: str, root: str) -> bool:
    return full == root or full.startswith(root.rstrip("/") + "/")


def _normalize_path(path: str) -> str:
    plain = os.path.normpath(path).replace(os.sep, "/")
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain
