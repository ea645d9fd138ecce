"""Redaction of secrets, before anything is shown, stored or logged."""

from ipyagent.redaction.finder import known_secrets
from ipyagent.redaction.redactor import HIDDEN, Redactor, StreamRedactor, is_secret_value
from ipyagent.redaction.secret_patterns import (
    MASK,
    Secrecy,
    is_secret_name,
    mask_arguments,
    secrecy,
)

__all__ = [
    "HIDDEN",
    "MASK",
    "Redactor",
    "Secrecy",
    "StreamRedactor",
    "is_secret_name",
    "is_secret_value",
    "known_secrets",
    "mask_arguments",
    "secrecy",
]
