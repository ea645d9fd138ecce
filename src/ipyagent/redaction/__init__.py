"""Secrets are hidden before anything is told, kept or logged."""

from ipyagent.redaction.environment import known_secrets
from ipyagent.redaction.names import MASK, masked, secret_name
from ipyagent.redaction.redactor import Redactor, secret_value
from ipyagent.redaction.streaming import HIDDEN, StreamRedactor

__all__ = [
    "HIDDEN",
    "MASK",
    "Redactor",
    "StreamRedactor",
    "known_secrets",
    "masked",
    "secret_name",
    "secret_value",
]
