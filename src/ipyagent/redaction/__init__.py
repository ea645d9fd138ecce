"""Secrets are hidden before anything is told, kept or logged."""

from ipyagent.redaction.environment import known_secrets
from ipyagent.redaction.names import MASK, Secrecy, masked, secrecy, secret_name
from ipyagent.redaction.redactor import Redactor, secret_value
from ipyagent.redaction.streaming import HIDDEN, StreamRedactor

__all__ = [
    "HIDDEN",
    "MASK",
    "Redactor",
    "Secrecy",
    "StreamRedactor",
    "known_secrets",
    "masked",
    "secrecy",
    "secret_name",
    "secret_value",
]
