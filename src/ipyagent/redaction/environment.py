"""Secrets in the process's environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ipyagent.redaction.finder import SHORTEST
from ipyagent.redaction.names import Secrecy, is_identifier, secrecy

_PLAIN = re.compile(r"[+-]?[\d.,_]+(?:e[+-]?\d+)?|true|false|enabled|disabled", re.IGNORECASE)
# Names of secrets here, but of ordinary columns in tables.
_SESSION = re.compile(r"(?:^|_)session(?:_?id)?$|snmp_?community$", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^@]*", re.IGNORECASE)


def known_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables called key, token, password and the like.

    Addresses of webhooks count if a part looks random: whoever has one may write there. Left out
    are values of less than 8 characters, numbers, switches, existing files and folders, addresses
    without credentials, values that repeat the variable's name (`POSTGRES_PASSWORD=postgres`), and
    words if the name does not clearly say that they are secret (`JUPYTER_TOKEN=datascience`): they
    would be hidden everywhere.
    """
    # Names first: reading all values as well takes twice as long.
    named = [
        (name, secret)
        for name in environ
        if (secret := secrecy(name) or (_SESSION.search(name) and Secrecy.MAYBE))
    ]
    secrets = [(name, environ.get(name, "").strip(), secret) for name, secret in named]
    return frozenset(
        [
            value
            for name, value, secret in secrets
            if len(value) >= SHORTEST and _tells(name, value, secret)
        ]
    )


def _tells(name: str, value: str, secret: Secrecy) -> bool:
    if secret is Secrecy.MAYBE and (is_identifier(value) or value[0] in "/~"):
        return False
    if "webhook" in name.lower() and _ADDRESS.fullmatch(value):
        return any(
            len(part) >= 2 * SHORTEST and not is_identifier(part) for part in value.split("/")
        )
    is_ordinary = (
        _PLAIN.fullmatch(value) or _ADDRESS.fullmatch(value) or value.lower() in name.lower()
    )
    return not is_ordinary and not os.path.exists(value)  # noqa: PTH110 - Path.exists raises for long ones
