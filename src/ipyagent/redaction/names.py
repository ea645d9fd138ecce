"""Secrets by the name they go by: of variables, keys, columns and arguments."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

from ipyagent.json_types import JsonDict

MASK = "••••••"
"""What is shown instead of an argument whose name says that it is secret."""

_ACCOUNTS = (
    r"(?:smtp|imap|pop3?|e?mail|db|database|(?:my|ms)?sql|pg|postgres(?:ql)?|maria(?:db)?|oracle"
    r"|mongo(?:db)?|redis|rabbit(?:mq)?|amqp|mqtt|kafka|elastic(?:search)?|ldap|s?ftp|ssh|sudo|root"
    r"|admin|users?|login|account|app|api|basic|http|proxy|vpn|wifi|wpa|key(?:store)?|trust_?store"
    r"|cert|docker|registry|jenkins|artifactory|nexus|jira|git|svc|service|server|host|zip|backup)"
)
"""What a password is for where `pass` alone could mean a filter, a test or a ticket."""

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
    r"|(?:^|_)(?:sk|pw[0-9]+)$|(?:recovery|backup)_?codes?$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"_(?:header|region|column|field|name|length|count|type|policy|format|prefix|strength|score"
    r"|rules?|hint|reset|changed|expir\w*|age|date|status|enabled|method|mode|level|required|class)$",
    re.IGNORECASE,
)
"""Ends of names of what only has to do with a secret."""
_ORDINARY = re.compile(
    r"(?:[a-z0-9]+_)*?(?:primary|foreign|sort|partition|index|group|join|merge|cache|s3)_?keys?"
    r"(?![a-z])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_PART = r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+)?[0-9]*"
_IDENTIFIER = re.compile(rf"(?=.*[A-Za-z]{{3}}){_PART}(?:[_./=:-]{_PART})*")
_SHORTEST = 8


class Secrecy(IntEnum):
    """What a name says of the strings that go by it."""

    NONE = 0
    MAYBE = 1
    """A key or token: of a service, but also of a table or a text."""
    SURE = 2

    def hides(self, text: str) -> bool:
        """Whether a string that goes by such a name is a secret."""
        if self is Secrecy.MAYBE:
            return len(text) >= _SHORTEST and mixed(text) and not identifier(text)
        return self is Secrecy.SURE and bool(text)


def secrecy(name: str) -> Secrecy:
    """How surely a variable, key or column of that name holds a secret."""
    name = _CAMEL.sub("_", name).replace("-", "_")
    if ordinary_key(name):
        return Secrecy.NONE
    if _SURE.search(name):
        return Secrecy.MAYBE if _ABOUT.search(name) else Secrecy.SURE
    return Secrecy.MAYBE if _MAYBE.search(name) else Secrecy.NONE


def secret_name(name: str) -> bool:
    """Whether a variable, key or column of that name may hold a secret."""
    return secrecy(name) > Secrecy.NONE


def ordinary_key(text: str) -> bool:
    """Whether the text begins with the name of a table's key: `PRIMARY_KEY`, `orders_sort_key`."""
    return bool(_ORDINARY.match(text))


def identifier(text: str) -> bool:
    """Whether the text is of words and numbers: `order_date_2024`, `us-east-1`, `year=2024/x`."""
    return bool(_IDENTIFIER.fullmatch(text))


def mixed(text: str) -> bool:
    """Whether there is a digit and a letter in it."""
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def masked(arguments: JsonDict) -> JsonDict:
    """The arguments with `••••••` for strings that their names tell to be secret."""
    return {name: _masked(secrecy(str(name)), value) for name, value in arguments.items()}


def _masked(secret: Secrecy, value: object) -> Any:
    if isinstance(value, dict):
        return masked(value)
    if isinstance(value, list):
        return [_masked(secret, each) for each in value]
    return MASK if isinstance(value, str) and secret.hides(value) else value
