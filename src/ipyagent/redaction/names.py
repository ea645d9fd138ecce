"""Secrets by the name they go by: of variables, keys, columns and arguments."""

from __future__ import annotations

import re
from typing import Any

MASK = "••••••"
"""What is shown instead of an argument whose name says that it is secret."""

_NAME = re.compile(
    r"passw|secret|authori[sz]ation|credential|passphrase|private_?key|api_?key|access_?key|auth_?key"
    r"|(?:^|_)(?:tokens?|keys?|pwd|bearer)(?:_|$)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def secret_name(name: str) -> bool:
    """Whether a variable, key or column of that name is taken to hold a secret."""
    return bool(_NAME.search(_CAMEL.sub("_", name)))


def masked(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with `••••••` for strings called key, token, password and the like."""
    return {name: _masked(str(name), value) for name, value in arguments.items()}


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return masked(value)
    if isinstance(value, list):
        return [_masked(name, each) for each in value]
    return MASK if isinstance(value, str) and value and secret_name(name) else value
