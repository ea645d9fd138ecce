"""Values that must not be told: by the name they go by, or by what they look like."""

from __future__ import annotations

import re

HIDDEN = "\u2039hidden\u203a"
"""What is shown in a secret's place."""

_NAME = re.compile(
    r"passw|secret|authori[sz]ation|credential|passphrase|private_?key|api_?key|access_?key|auth_?key"
    r"|(?:^|_)(?:tokens?|keys?|pwd|bearer)(?:_|$)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_VALUE = re.compile(
    r"""
      \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}            # OpenAI, Anthropic, Stripe, OpenRouter
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b | \bAIza[\w-]{30,} | \bya29\.[\w-]{20,}
    | \bxox[abeoprs]-[\w-]{10,} | \bhf_[A-Za-z0-9]{20,} | \bgsk_[A-Za-z0-9]{20,}
    | \br8_[A-Za-z0-9]{20,} | \bpypi-[\w-]{20,} | \bnpm_[A-Za-z0-9]{30,} | \bxai-[\w-]{20,}
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}                    # JSON web tokens
    | -----BEGIN[ A-Z]*PRIVATE\ KEY
    | \bbearer\s+[\w.~+/=-]{16,}
    | ://[^\s/:@]*:[^\s/@]+@                          # a password in a URL
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WINDOW = 10_000


def secret_name(name: str) -> bool:
    """Whether a variable, key or column of that name is taken to hold a secret."""
    return bool(_NAME.search(_CAMEL.sub("_", name)))


def secret_value(text: str) -> bool:
    """Whether the text's first 10,000 characters look like they hold a key, token or password."""
    return bool(_VALUE.search(text[:_WINDOW]))
