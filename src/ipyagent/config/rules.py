"""Rules about calls: which are denied, asked about each time, or allowed unasked.

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

In doubt a pattern is read as the stricter rule: what denies or asks also fits other spellings and
all that lies in a folder; what allows fits only what it says, for every file that a call is about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import to_jsonable_python

from ipyagent.config.kinds import PARTIAL, Names, Section
from ipyagent.config.patterns import (
    MAX_PATTERN,
    Spellings,
    check_path_pattern,
    folded,
    folded_path,
    path_pattern,
    spellings,
    text_pattern,
)
from ipyagent.json_types import JsonMapping
from ipyagent.plaintext import visible

COMMANDS = {"run_shell": "command", "run_python": "code", "python_script": "content"}
"""Tools that run what stands in an argument."""

# Nothing nested deeper: YAML can write a file that is small and endless.
Scalar = bool | int | float | str | None
Plain = Scalar | tuple[Scalar, ...] | dict[str, Scalar]

Glob = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN)]


def text_of(value: object) -> str:
    """An argument as patterns see it: text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON makes no difference
    plain = to_jsonable_python(value, fallback=str)
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Subject:
    """A call as rules see it.

    `named` says which paths it is about, seen from `root`; `command` is the argument that is run.
    """

    tool: str
    arguments: JsonMapping
    root: Path | None
    named: Callable[[], Iterable[str]]
    command: str | None = None
    _folded: dict[str, str] = field(default_factory=dict)

    def folded(self, name: str) -> str:
        """The text of an argument, folded; that of null where it is not given."""
        if name not in self._folded:
            self._folded[name] = folded(text_of(self.arguments.get(name)))
        return self._folded[name]

    @cached_property
    def alike(self) -> tuple[str, ...]:
        """The paths that the call is about, in every spelling."""
        return tuple(spelling for path in self._paths for spelling in path.alike)

    @cached_property
    def ways(self) -> frozenset[tuple[str, ...]]:
        """How each of them is written, and where each really leads."""
        return frozenset(way for path in self._paths for way in path)

    @cached_property
    def _paths(self) -> tuple[Spellings, ...]:
        return tuple(spellings(path, self.root) for path in self.named())


class Example(Section):
    """A call that a rule should be about, or should not; its path is the argument `path`."""

    tool: str
    arguments: dict[str, Plain] = Field(default_factory=dict)

    def subject(self) -> Subject:
        """The example as rules see it."""
        path = self.arguments.get("path")
        named = (path,) if isinstance(path, str) else ()
        command = COMMANDS.get(self.tool)
        return Subject(self.tool, self.arguments, None, lambda: named, command)


class Examples(Section):
    """Calls by which a rule is tried when it is loaded."""

    match: tuple[Example, ...] = ()
    no_match: tuple[Example, ...] = ()


class Rule(Section):
    """What becomes of the calls that fit all of its patterns."""

    effect: Literal["allow", "ask", "deny"]
    tool: Names = ("*",)
    """Names of tools, or patterns; a call has to fit one of them."""
    arguments: dict[str, Scalar] = Field(default_factory=dict)
    """What arguments have to be: text is a pattern, all else a value."""
    path: Annotated[Glob, AfterValidator(check_path_pattern)] | None = None
    reason: str | None = Field(default=None, max_length=MAX_PATTERN)
    """What the model and the person are told."""
    examples: Examples = Examples()
    source: str = ""
    """Where the rule is written; filled in when it is loaded."""

    @field_validator("source")
    @classmethod
    def _is_filled_in(cls, source: str, info: ValidationInfo) -> str:
        if source and info.context == PARTIAL:
            raise ValueError("this is filled in, not set")
        return source

    @model_validator(mode="after")
    def _can_be_meant(self) -> Rule:
        if not self.tool:
            raise ValueError("tool names no tool")
        if self.effect == "allow":
            self._allows_little()
        for name, wanted in (("match", True), ("no_match", False)):
            for n, example in enumerate(getattr(self.examples, name)):
                fits = self.names(example.tool) and self.fits(example.subject())
                if fits != wanted:
                    does = "does not fit" if wanted else "fits"
                    raise ValueError(f"the rule {does} the call in its examples.{name}.{n}")
        return self

    def _allows_little(self) -> None:
        if not all(name.strip("*?") for name in self.tool):
            raise ValueError("what is allowed has to be named; agent.confirm_mode=yolo allows all")
        for tool, name in COMMANDS.items():
            pattern = self.arguments.get(name)
            if isinstance(pattern, str) and _is_glob(pattern) and self.names(tool):
                raise ValueError(
                    f"{tool} is not allowed by a pattern, because what runs after `;` or in `$()` "
                    f"would fit it as well; write the whole {name} without * and ?"
                )

    def __str__(self) -> str:
        patterns = [f"{name}={text_of(value)}" for name, value in self.arguments.items()]
        path = [f"path {self.path}"] if self.path else []
        return _line(", ".join([f"{self.effect} {', '.join(self.tool)}", *path, *patterns]))

    @property
    def says(self) -> str:
        """The rule as it is told to a model or a person, on one line."""
        does = {"allow": "allows", "ask": "asks about", "deny": "denies"}[self.effect]
        where = self.source or "a rule"
        return _line(f"{where} {does} it: {self.reason}" if self.reason else f"{where}: {self}")

    def names(self, tool: str) -> bool:
        """Whether the rule is about calls of that tool at all."""
        name = tool if self.effect == "allow" else folded(tool)
        return any(pattern.match(name) for pattern in self._tools)

    def fits(self, call: Subject) -> bool:
        """Whether the rule is about this call of a tool that it names."""
        if self.arguments and not all(self._takes(call, name) for name in self.arguments):
            return False
        return self._path is None or self._leads_to(call, self._path)

    def _takes(self, call: Subject, name: str) -> bool:
        if self.effect != "allow":
            return bool(self._texts[name].match(call.folded(name)))
        if name not in call.arguments:
            return False
        value = call.arguments[name]
        if name == call.command:  # a pattern would fit whatever is run behind what it means
            return bool(self.arguments[name] == value)
        return bool(self._texts[name].match(text_of(value)))

    def _leads_to(self, call: Subject, pattern: re.Pattern[str]) -> bool:
        if self.effect != "allow":
            return any(map(pattern.match, call.alike))
        return bool(call.ways) and all(any(map(pattern.match, way)) for way in call.ways)

    @cached_property
    def _tools(self) -> tuple[re.Pattern[str], ...]:
        return tuple(text_pattern(self._read(name)) for name in self.tool)

    @cached_property
    def _texts(self) -> dict[str, re.Pattern[str]]:
        return {name: self._text(value) for name, value in self.arguments.items()}

    @cached_property
    def _path(self) -> re.Pattern[str] | None:
        if self.path is None:
            return None
        if self.effect == "allow":
            return path_pattern(self.path, below=False)
        return path_pattern(folded_path(self.path), below=True)

    def _text(self, value: Scalar) -> re.Pattern[str]:
        if isinstance(value, str):
            return text_pattern(self._read(value))
        return re.compile(re.escape(self._read(text_of(value))) + r"\Z")

    def _read(self, text: str) -> str:
        return text if self.effect == "allow" else folded(text)


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _is_glob(pattern: str) -> bool:
    return not {"*", "?"}.isdisjoint(pattern)


def _written_out(value: object) -> Any:
    """A list as the environment and `%agent config` have it: in YAML's short form, or JSON."""
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError("this is not a list of rules in YAML or JSON") from None


class PolicyConfig(Section):
    """What is decided about calls beforehand. The rules of all sources hold together."""

    rules: Annotated[tuple[Rule, ...], BeforeValidator(_written_out)] = ()
