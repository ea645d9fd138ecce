"""What the settings of a folder may do before the person trusts it: only make things stricter.

Such a file arrives with a download or a checkout, and a tool may have written it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ipyagent.config.keys import DEFAULTS, Key

STRICTNESS = ("yolo", "confirm-sensitive", "confirm-all")


class Limit(NamedTuple):
    """Whether a folder may set `value` over what the layers below it say, and else why not.

    `rest` is the part of a refused value that holds all the same.
    """

    allows: Callable[[Any, Any, Path | None], bool]
    why: str
    rest: Callable[[Any], Any] = lambda value: None


def _asks_no_less(value: object, below: object, _folder: Path | None) -> bool:
    return STRICTNESS.index(value) >= STRICTNESS.index(below)


def _is_subset(value: Any, below: Any, _folder: Path | None) -> bool:
    return not below or (bool(value) and set(value) <= set(below))


def _is_no_more(value: Any, below: Any, _folder: Path | None) -> bool:
    return below is None or (value is not None and bool(value <= below))


def _is_no_less(value: object, below: object, _folder: Path | None) -> bool:
    return bool(value) or not below


def _is_inside(value: Any, below: Any, folder: Path | None) -> bool:
    if folder is None:
        return False
    try:
        home = folder.resolve()
        target: Path = (home / value).resolve()
        return target.is_relative_to(home) and target.is_relative_to((home / below).resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that cannot be one
        return False


def _is_folder_inside(value: Any, below: Any, folder: Path | None) -> bool:
    return folder is not None and _is_inside(value, below, folder) and (folder / value).is_dir()


def _is_file_inside(value: Any, _below: Any, folder: Path | None) -> bool:
    # Relative to the workspace's root, which may be another folder: so no way up at all.
    path = Path(value or "/")
    leads_out = path.is_absolute() or ".." in path.parts or str(path).startswith("~")
    return not leads_out and _is_inside(path, ".", folder)


def _is_log_inside(value: Any, below: Any, folder: Path | None) -> bool:
    # Lines are added to it: it must not be a file that is there for something else.
    return _is_file_inside(value, below, folder) and Path(value).suffix in {".jsonl", ".log"}


def _asking(rules: Any) -> tuple[Any, ...]:
    return tuple(rule for rule in rules if rule.effect != "allow")


def _only_asks(value: Any, _below: Any, _folder: Path | None) -> bool:
    return len(_asking(value)) == len(value)


def _never(_value: object, _below: object, _folder: Path | None) -> bool:
    return False


_BUDGET = Limit(_is_no_more, "may only lower it")
_SWITCH = Limit(_is_no_more, "may only switch it off")
_YOURS = Limit(_never, "may not decide where requests, keys and records go")

POLICY: Mapping[str, Limit] = {
    "agent.confirm_mode": Limit(_asks_no_less, "may only make it ask about more"),
    "agent.allowed_tools": Limit(_is_subset, "may only leave tools out"),
    "agent.system_prompt_path": Limit(_is_file_inside, "may only name a file inside of it"),
    "agent.max_steps": _BUDGET,
    "agent.max_seconds": _BUDGET,
    "agent.step_seconds": _BUDGET,
    "agent.max_tokens": _BUDGET,
    "agent.max_usd": _BUDGET,
    "agent.plan": Limit(_is_no_less, "may only switch it on"),
    "workspace.root": Limit(_is_folder_inside, "may only name a folder inside of it"),
    "workspace.allow_delete": _SWITCH,
    "tools.files": _SWITCH,
    "tools.python": _SWITCH,
    "tools.namespace": _SWITCH,
    "tools.notebook": _SWITCH,
    "tools.scripts": _SWITCH,
    "tools.shell": _SWITCH,
    "tools.notes": _SWITCH,
    "tools.skills": _SWITCH,
    "tools.mcp": _SWITCH,
    "tools.timeout": _BUDGET,
    "tools.max_timeout": _BUDGET,
    "workspace.edit_seconds": _BUDGET,
    "logging.file": Limit(_is_log_inside, "may only name a .jsonl or .log file inside of it"),
    "llm.provider": _YOURS,
    "llm.mode": _YOURS,
    "llm.api_base": _YOURS,
    "llm.api_key_env": _YOURS,
    "llm.api_key": _YOURS,
    "mcp.servers": _YOURS,
    "policy.rules": Limit(_only_asks, "may only add rules that ask or deny; those hold", _asking),
    "chat.persist": _YOURS,
    "chat.validators": Limit(_never, "may not bring code that runs"),
    "chat.enable_observability": _YOURS,
}
"""The settings that matter to safety; all others are free."""

PINNED = frozenset(key for key, limit in POLICY.items() if limit is not _BUDGET)
"""What a `.env` file that somebody loads later must not decide either."""


_OTHER_NAMES = {
    ("agent", "workspace_dir"): "workspace.root",
    ("tools", "enable_file_tools"): "tools.files",
    ("tools", "enable_bash"): "tools.shell",
    ("tools", "enable_note"): "tools.notes",
    ("tools", "enable_skills"): "tools.skills",
    ("tools", "enable_mcp"): "tools.mcp",
}


def rule_of(key: Key) -> str:
    """The key that the rules know it by: a named agent's settings are an agent's settings."""
    if key in _OTHER_NAMES:
        return _OTHER_NAMES[key]
    return f"agent.{key[2]}" if key[0] == "agents" and len(key) > 2 else ".".join(key)


def refused(
    given: Mapping[Key, object], below: Mapping[Key, object], folder: Path | None
) -> dict[Key, Limit]:
    """The settings that would loosen what holds below, each with the limit that it breaks."""
    limits = {}
    for key, value in given.items():
        limit = POLICY.get(rule_of(key))
        if limit and not limit.allows(value, _held(key, below), folder):
            limits[key] = limit
    return limits


def _held(key: Key, below: Mapping[Key, object]) -> Any:
    general = ("agent", key[2]) if key[0] == "agents" and len(key) > 2 else key
    return below.get(key, below.get(general, DEFAULTS.get(general)))
