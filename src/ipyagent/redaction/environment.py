"""The secrets that the process's environment holds."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ipyagent.redaction.finding import SHORTEST
from ipyagent.redaction.names import Secrecy, identifier, secrecy

_PLAIN = re.compile(r"[+-]?[\d.,_]+(?:e[+-]?\d+)?|true|false|enabled|disabled", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^@]*", re.IGNORECASE)


def known_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """The values of variables that are called key, token, password and the like.

    Addresses of webhooks are known where a part looks random: whoever has one may write there.
    Left out are those of less than 8 characters, numbers, switches, files and folders that exist,
    addresses without credentials, what a variable says already by its name
    (`POSTGRES_PASSWORD=postgres`), and words where the name does not say clearly that they are
    secret (`JUPYTER_TOKEN=datascience`): they would be hidden wherever they stand.
    """
    return frozenset(
        value.strip()
        for name, value in environ.items()
        if len(value.strip()) >= SHORTEST and _tells(name, value.strip())
    )


def _tells(name: str, value: str) -> bool:
    secret = secrecy(name)
    if not secret or (secret is Secrecy.MAYBE and (identifier(value) or value[0] in "/~")):
        return False
    if "webhook" in name.lower() and _ADDRESS.fullmatch(value):
        return any(len(part) >= 2 * SHORTEST and not identifier(part) for part in value.split("/"))
    said = _PLAIN.fullmatch(value) or _ADDRESS.fullmatch(value) or value.lower() in name.lower()
    return not said and not os.path.exists(value)  # noqa: PTH110 - Path.exists raises for long ones
