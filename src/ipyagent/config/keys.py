"""Settings by dotted key, such as `llm.retry.max_retries`, and which of them a folder may set.

Such a file arrives with a download or a checkout, and a tool may have written it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ipyagent.config.rules import Names, Rule, Section
from ipyagent.config.sections import Config, MCPServerConfig
from ipyagent.json_types import JsonDict
from ipyagent.phrases import word_set
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


CONFIRM_MODES = ("yolo", "confirm-sensitive", "confirm-all")


class WorkspaceLimit(NamedTuple):
    """A check whether a folder may set `value` over the layers below, and the reason if not.

    `allowed_part` returns the part of a refused value that applies all the same.
    """

    allows: Callable[[Any, Any, Path | None], bool]
    reason: str
    allowed_part: Callable[[Any], object] = lambda value: None


def _is_no_laxer(value: object, below: object, _folder: Path | None) -> bool:
    return CONFIRM_MODES.index(value) >= CONFIRM_MODES.index(below)


def _is_subset(value: Names, below: Names, _folder: Path | None) -> bool:
    return not below or (bool(value) and set(value) <= set(below))


def _is_at_most(value: float | None, below: float | None, _folder: Path | None) -> bool:
    return below is None or (value is not None and bool(value <= below))


def _is_at_least(value: object, below: object, _folder: Path | None) -> bool:
    return bool(value) or not below


def _is_inside(value: str | Path, below: str | Path, folder: Path | None) -> bool:
    if folder is None:
        return False
    try:
        home = folder.resolve()
        target = (home / value).resolve()
        return target.is_relative_to(home) and target.is_relative_to((home / below).resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that cannot be one
        return False


def _is_folder_inside(value: Path, below: Path, folder: Path | None) -> bool:
    return folder is not None and _is_inside(value, below, folder) and (folder / value).is_dir()


def _is_file_inside(value: str | Path | None, _below: object, folder: Path | None) -> bool:
    # Relative to the workspace's root, which may be another folder: so no way up at all.
    path = Path(value or "/")
    leads_out = path.is_absolute() or ".." in path.parts or str(path).startswith("~")
    return not leads_out and _is_inside(path, ".", folder)


def _is_log_inside(value: Any, below: object, folder: Path | None) -> bool:
    # Lines are added to it: it must not be a file that is there for something else.
    return _is_file_inside(value, below, folder) and Path(value).suffix in {".jsonl", ".log"}


def _restrictive_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.effect != "allow")


def _only_restricts(value: tuple[Rule, ...], _below: object, _folder: Path | None) -> bool:
    return len(_restrictive_rules(value)) == len(value)


def _never(_value: object, _below: object, _folder: Path | None) -> bool:
    return False


_BUDGETS = word_set("""
    agent.max_steps agent.max_seconds agent.step_seconds agent.max_tokens agent.max_usd
    agent.rehearse_seconds tools.timeout tools.max_timeout workspace.edit_seconds
""")
_SWITCHES = word_set("""
    agent.look_freely agent.adopt_new workspace.allow_delete tools.files tools.python
    tools.namespace tools.notebook tools.scripts tools.shell tools.notes tools.skills tools.mcp
""")
_USERS_OWN = word_set("""
    llm.provider llm.mode llm.api_base llm.api_key_env llm.api_key mcp.servers chat.persist
    chat.enable_observability
""")

LIMITS: Mapping[str, WorkspaceLimit] = {
    "agent.confirm_mode": WorkspaceLimit(_is_no_laxer, "may only make it ask about more"),
    "agent.allowed_tools": WorkspaceLimit(_is_subset, "may only leave tools out"),
    "agent.system_prompt_path": WorkspaceLimit(
        _is_file_inside, "may only name a file inside of it"
    ),
    "agent.plan": WorkspaceLimit(_is_at_least, "may only switch it on"),
    "workspace.root": WorkspaceLimit(_is_folder_inside, "may only name a folder inside of it"),
    "undo.memory": WorkspaceLimit(_never, "may not decide what can be taken back"),
    "logging.file": WorkspaceLimit(
        _is_log_inside, "may only name a .jsonl or .log file inside of it"
    ),
    "policy.rules": WorkspaceLimit(
        _only_restricts, "may only add rules that ask or deny; those hold", _restrictive_rules
    ),
    "chat.validators": WorkspaceLimit(_never, "may not bring code that runs"),
    **dict.fromkeys(_BUDGETS, WorkspaceLimit(_is_at_most, "may only lower it")),
    **dict.fromkeys(_SWITCHES, WorkspaceLimit(_is_at_most, "may only switch it off")),
    **dict.fromkeys(
        _USERS_OWN, WorkspaceLimit(_never, "may not decide where requests, keys and records go")
    ),
}
"""The limits of settings that matter for safety; all others are free."""

PINNED_KEYS = frozenset(LIMITS) - _BUDGETS
"""Keys that a `.env` file loaded later must not set either."""


_OTHER_NAMES = {
    ("agent", "workspace_dir"): "workspace.root",
    ("tools", "enable_file_tools"): "tools.files",
    ("tools", "enable_bash"): "tools.shell",
    ("tools", "enable_note"): "tools.notes",
    ("tools", "enable_skills"): "tools.skills",
    ("tools", "enable_mcp"): "tools.mcp",
}


def limit_key(key: Key) -> str:
    """Return the key under which limits know it: a named agent's settings are agent settings."""
    if key in _OTHER_NAMES:
        return _OTHER_NAMES[key]
    return f"agent.{key[2]}" if key[0] == "agents" and len(key) > 2 else ".".join(key)


def find_violations(
    values: Mapping[Key, object], below: Mapping[Key, object], folder: Path | None
) -> dict[Key, WorkspaceLimit]:
    """Return the settings that would loosen the layers below, each with the limit it breaks."""
    limits = {}
    for key, value in values.items():
        limit = LIMITS.get(limit_key(key))
        if limit and not limit.allows(value, _value_below(key, below), folder):
            limits[key] = limit
    return limits


def _value_below(key: Key, below: Mapping[Key, object]) -> object:
    general = ("agent", key[2]) if key[0] == "agents" and len(key) > 2 else key
    return below.get(key, below.get(general, DEFAULTS.get(general)))
