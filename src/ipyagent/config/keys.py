"""Settings by key, such as `llm.retry.max_retries`, and what to say about a key that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ipyagent.config.kinds import Section
from ipyagent.config.rules import Rule
from ipyagent.config.sections import Config, MCPServerConfig
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import visible

Key = tuple[str, ...]
"""The names on the way to a setting; a named agent's name may hold dots."""

ELSEWHERE: Mapping[Key, str] = {
    ("chat", "agent_config_path"): "--config PATH",
    ("chat", "verbose"): "logging.verbose",
}
"""Fields that are no settings, and what is."""


def leaves(section: Section, above: Key = (), *, given: bool = False) -> Iterator[tuple[Key, Any]]:
    """Each setting and its value; `given`: only those that were set. Of named agents only those."""
    for name in type(section).model_fields:
        if given and name not in section.model_fields_set:
            continue
        key, value = (*above, name), getattr(section, name)
        if isinstance(value, Section):
            yield from leaves(value, key, given=given)
        elif isinstance(value, dict):
            for agent, profile in value.items():
                yield from leaves(profile, (*key, agent), given=True)
                if not profile.model_fields_set:
                    yield (*key, agent), {}
        elif given or key not in ELSEWHERE:
            yield key, value


NOT_SET = "not set"

MOST = 5  # problems told at once

DEFAULTS: Mapping[Key, Any] = dict(leaves(Config()))

NAMES = [".".join(key) for key in DEFAULTS]

SECTIONS = sorted({name.rpartition(".")[0] for name in NAMES} | {"agents"})


def values_of(settings: Config) -> JsonDict:
    """All settings by dotted key."""
    return {".".join(key): value for key, value in leaves(settings)}


def nested(values: Iterable[tuple[Key, object]]) -> JsonDict:
    """Settings by key, as sections."""
    sections: JsonDict = {}
    for key, value in sorted(values, key=lambda item: len(item[0])):
        put(sections, key, dict(value) if value == {} else value)
    return sections


def put(sections: JsonDict, key: Key, value: object) -> None:
    """Set one key; raises TypeError where a value stands in the place of a section."""
    for name in key[:-1]:
        sections = sections.setdefault(name, {})
    sections[key[-1]] = value


def explain(error: ValidationError) -> str:
    """What is wrong, by key and without the values, which may be secrets."""
    problems = []
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    for each in errors[:MOST]:
        key = tuple(str(part) for part in each["loc"])
        if key in ELSEWHERE:
            problems.append(elsewhere(key))
        elif each["type"] in {"extra_forbidden", "invalid_key"}:
            problems.append(unknown(key))
        else:
            said = each["msg"].removeprefix("Value error, ")
            problems.append(f"{told('.'.join(key))}: {said}" if key else said)
    if len(errors) > MOST:
        problems.append(f"and {len(errors) - MOST} more")
    return "; ".join(problems)


def elsewhere(key: Key) -> str:
    """That this is no setting, and what is."""
    return f"{'.'.join(key)} is not a setting; use {ELSEWHERE[key]}"


def unknown(key: Key) -> str:
    """That there is no such setting, and the nearest one."""
    dotted = ".".join(key)[:100]
    return f"{told(dotted)} is not a setting; {_nearest(key, dotted)}"


def _nearest(key: Key, dotted: str) -> str:
    known = _of_rule(key) or [*_named(key), *NAMES, *SECTIONS]
    if dotted in known:  # a name with dots in it
        *sections, name = dotted.split(".")
        return f"write {name} inside of the section {'.'.join(sections)}"
    nearest = max(known, key=lambda name: _likeness(name, dotted.lower()))
    if _likeness(nearest, dotted.lower())[1] >= 0.6:
        return f"did you mean {nearest}?"
    section = ".".join(key[:-1])
    below = [name for name in known if name.rpartition(".")[0] == section]
    return f"there are: {', '.join(below or SECTIONS)}"


def _likeness(one: str, other: str) -> tuple[bool, float, float]:
    """Whether the letters are the same, how like the last names are, and how like the whole."""
    pairs = ((one.rpartition(".")[2], other.rpartition(".")[2]), (one, other))
    last, whole = (difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    return sorted(one) == sorted(other), last, whole


def _named(key: Key) -> list[str]:
    """The settings that a named agent can have, where the key is about one."""
    if key[0] != "agents" or len(key) < 3:
        return []
    return [f"agents.{key[1]}.{name[6:]}" for name in NAMES if name.startswith("agent.")]


def _of_rule(key: Key) -> list[str]:
    """What can be said in a rule, where the key is about one."""
    if key[:2] != ("policy", "rules") or len(key) != 4:
        return []
    return [f"policy.rules.{key[2]}.{name}" for name in Rule.model_fields if name != "source"]


def told(text: str) -> str:
    """Somebody's text inside of ours: one line that hides nothing."""
    return visible(text).replace("\n", "↵")


def text_of(value: object) -> str:
    """A value as one would write it; secrets show as stars."""
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        each = (v.name if isinstance(v, MCPServerConfig) else str(v) for v in value)
        return told(", ".join(each)) or NOT_SET
    return told(str(value))
