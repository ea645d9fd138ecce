"""Settings by dotted key, such as `llm.retry.max_retries`, and messages about wrong keys."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from pydantic import ValidationError

from ipyagent.config.field_types import Section
from ipyagent.config.rules import Rule
from ipyagent.config.sections import Config, MCPServerConfig
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import cite

Key = tuple[str, ...]
"""The names on the path to a setting; the name of an agent may contain dots."""

_MISPLACED: Mapping[Key, str] = {
    ("chat", "agent_config_path"): "--config PATH",
    ("chat", "verbose"): "logging.verbose",
}
"""Names that are often taken for settings, and what to use instead."""


def iter_settings(
    section: Section, prefix: Key = (), *, only_set: bool = False
) -> Iterator[tuple[Key, object]]:
    """Yield each setting and its value; `only_set`: only those that were set (agents always so)."""
    for name in type(section).model_fields:
        if only_set and name not in section.model_fields_set:
            continue
        key, value = (*prefix, name), getattr(section, name)
        if isinstance(value, Section):
            yield from iter_settings(value, key, only_set=only_set)
        elif isinstance(value, dict):
            for agent, profile in value.items():
                yield from iter_settings(profile, (*key, agent), only_set=True)
                if not profile.model_fields_set:
                    yield (*key, agent), {}
        else:
            yield key, value


UNSET = "not set"

MAX_PROBLEMS = 5  # problems in one message

DEFAULTS: Mapping[Key, object] = dict(iter_settings(Config()))

SETTING_NAMES = [".".join(key) for key in DEFAULTS]

SECTIONS = sorted({name.rpartition(".")[0] for name in SETTING_NAMES} | {"agents"})


def nest(values: Iterable[tuple[Key, object]]) -> JsonDict:
    """Return the settings as nested sections."""
    sections: JsonDict = {}
    for key, value in sorted(values, key=lambda item: len(item[0])):
        put_value(sections, key, dict(value) if value == {} else value)
    return sections


def put_value(sections: JsonDict, key: Key, value: object) -> None:
    """Set one key; raises TypeError if a section's place holds a value."""
    for name in key[:-1]:
        sections = sections.setdefault(name, {})
    sections[key[-1]] = value


def explain_error(error: ValidationError) -> str:
    """Return the errors by key, without the values, which may be secrets."""
    problems = []
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    for each in errors[:MAX_PROBLEMS]:
        key = tuple(str(part) for part in each["loc"])
        if key in _MISPLACED:
            problems.append(f"{'.'.join(key)} is not a setting; use {_MISPLACED[key]}")
        elif each["type"] in {"extra_forbidden", "invalid_key"}:
            dotted = ".".join(key)[:100]
            problems.append(f"{cite(dotted)} is not a setting; {_suggest_names(key, dotted)}")
        else:
            message = each["msg"].removeprefix("Value error, ")
            problems.append(f"{cite('.'.join(key))}: {message}" if key else message)
    if len(errors) > MAX_PROBLEMS:
        problems.append(f"and {len(errors) - MAX_PROBLEMS} more")
    return "; ".join(problems)


def _suggest_names(key: Key, dotted: str) -> str:
    """Return the setting that is most similar to one that there is not."""
    known = _rule_names(key) or [*_profile_names(key), *SETTING_NAMES, *SECTIONS]
    if dotted in known:  # a name with dots in it
        *sections, name = dotted.split(".")
        return f"write {name} inside of the section {'.'.join(sections)}"
    nearest = max(known, key=lambda name: _similarity(name, dotted.lower()))
    if _similarity(nearest, dotted.lower())[1] >= 0.6:
        return f"did you mean {nearest}?"
    section = ".".join(key[:-1])
    siblings = [name for name in known if name.rpartition(".")[0] == section]
    return f"there are: {', '.join(siblings or SECTIONS)}"


def _similarity(one: str, other: str) -> tuple[bool, float, float]:
    """Return how similar two keys are: same letters, last names, whole keys."""
    pairs = ((one.rpartition(".")[2], other.rpartition(".")[2]), (one, other))
    last, whole = (difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    return sorted(one) == sorted(other), last, whole


def _profile_names(key: Key) -> list[str]:
    """Return the settings that a named agent can have, if the key is about one."""
    if key[0] != "agents" or len(key) < 3:
        return []
    return [f"agents.{key[1]}.{name[6:]}" for name in SETTING_NAMES if name.startswith("agent.")]


def _rule_names(key: Key) -> list[str]:
    """Return the fields of a rule, if the key is about one."""
    if key[:2] != ("policy", "rules") or len(key) != 4:
        return []
    return [f"policy.rules.{key[2]}.{name}" for name in Rule.model_fields if name != "source"]


def format_value(value: object) -> str:
    """Format a value as the user would write it; secrets appear as stars."""
    if value is None:
        return UNSET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        each = (v.name if isinstance(v, MCPServerConfig) else str(v) for v in value)
        return cite(", ".join(each)) or UNSET
    return cite(str(value))
