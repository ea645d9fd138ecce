"""Names of secrets: of variables, keys, columns and arguments."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Any

from ipyagent.json_types import JsonDict

MASK = "••••••"
"""Shown instead of an argument with a secret name."""

_ACCOUNTS = (
    r"(?:smtp|imap|pop3?|e?mail|db|database|(?:my|ms)?sql|pg|postgres(?:ql)?|maria(?:db)?|oracle"
    r"|mongo(?:db)?|redis|rabbit(?:mq)?|amqp|mqtt|kafka|elastic(?:search)?|ldap|s?ftp|ssh|sudo|root"
    r"|admin|users?|login|account|app|api|basic|http|proxy|vpn|wifi|wpa|key(?:store)?|trust_?store"
    r"|cert|docker|registry|jenkins|artifactory|nexus|jira|git|svc|service|server|host|zip|backup)"
)
"""Names beside which `pass` means a password: alone it could be a filter, test or ticket."""

_SURE = re.compile(
    r"passw|authori[sz]ation|credential|passphrase|(?:private|api|access|auth)_?key"
    r"|contrase[nñ]a|mot_?de_?passe|(?:^|_)(?:kennwort|senha|storepass)(?:_|$)"
    r"|pass(?:code|key)|(?:seed|recovery)_?phrase|mnemonic|(?:^|_)creds?(?:_|$)"
    rf"|(?:^|_){_ACCOUNTS}_?(?:pass|pwd?)(?:_?[0-9]+)?$"
    r"|secrets?(?:_?(?:key|token|access|value).*|_?[0-9]+)?$"
    r"|(?:auth|access|refresh|bearer|session|api|hf|github|gitlab|slack|bot)_?tokens?(?:_|$)"
    r"|(?:^|_)(?:pwd|bearer)(?:_|$)",
    re.IGNORECASE,
)
_MAYBE = re.compile(
    r"secret|(?:^|_)(?:tokens?|keys?)(?:_|$)"
    r"|(?:^|_)(?:pass|pw|pat|jwt|sas|cookies?|salt|o?auth2?|webhooks?|conn(?:ection)?_?str(?:ing)?"
    r"|dsn|seed|psk|t?otp|[cx]srf|gl_?pat|tok)(?:_(?!id$)|$)"
    r"|(?:^|_)(?:sk|pw[0-9]+)$|(?:recovery|backup|access)_?codes?$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"_(?:header|region|column|field|name|length|count|type|policy|format|prefix|strength|score"
    r"|rules?|hint|reset|changed|expir\w*|age|date|status|enabled|method|mode|level|required|class)$",
    re.IGNORECASE,
)
"""Endings of names for facts about a secret."""
_ORDINARY = re.compile(
    r"(?:[a-z0-9]+_)*?(?:primary|foreign|sort|partition|index|group|join|merge|cache|s3)_?keys?"
    r"(?![a-z])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_PART = r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+)?[0-9]*"
_IDENTIFIER = re.compile(rf"(?=.*[A-Za-z]{{3}}){_PART}(?:[_./=:-]{_PART})*")
_SHORTEST = 8
_USUAL = 100  # characters of names that are remembered


class Secrecy(IntEnum):
    """The degree to which a name announces a secret."""

    NONE = 0
    MAYBE = 1
    """A key or token: of a service, but also of a table or a text."""
    SURE = 2

    def hides(self, text: str) -> bool:
        """Return whether a string with such a name is a secret."""
        if self is Secrecy.MAYBE:
            return len(text) >= _SHORTEST and has_mixed_characters(text) and not is_identifier(text)
        return self is Secrecy.SURE and bool(text)


def secrecy(name: str) -> Secrecy:
    """Return how surely a variable, key or column of that name holds a secret."""
    return _known_secrecy(name) if len(name) <= _USUAL else _secrecy(name)


def _secrecy(name: str) -> Secrecy:
    name = _CAMEL.sub("_", name).replace("-", "_")
    if is_ordinary_key(name):
        return Secrecy.NONE
    if _SURE.search(name):
        return Secrecy.MAYBE if _ABOUT.search(name) else Secrecy.SURE
    return Secrecy.MAYBE if _MAYBE.search(name) else Secrecy.NONE


# The same names are looked at again before each run.
_known_secrecy = lru_cache(maxsize=16_384)(_secrecy)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, key or column of that name may hold a secret."""
    return secrecy(name) > Secrecy.NONE


def is_ordinary_key(text: str) -> bool:
    """Return whether the text starts with a table key's name: `PRIMARY_KEY`, `orders_sort_key`."""
    return bool(_ORDINARY.match(text))


def is_identifier(text: str) -> bool:
    """Return whether the text consists of words and numbers: `order_date_2024`, `us-east-1`."""
    return bool(_IDENTIFIER.fullmatch(text))


def has_mixed_characters(text: str) -> bool:
    """Return whether it has a digit and a letter."""
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def mask_arguments(arguments: JsonDict) -> JsonDict:
    """Return the arguments with `••••••` for strings with secret names."""
    return {name: _mask_value(secrecy(str(name)), value) for name, value in arguments.items()}


def _mask_value(secret: Secrecy, value: object) -> Any:
    if isinstance(value, dict):
        return mask_arguments(value)
    if isinstance(value, list):
        return [_mask_value(secret, each) for each in value]
    return MASK if isinstance(value, str) and secret.hides(value) else value
