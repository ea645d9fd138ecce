"""Redaction of secrets, before anything is shown, stored or logged."""

from ipyagent.redaction.redactor import (
    HIDDEN as HIDDEN,
    Redactor as Redactor,
    StreamRedactor as StreamRedactor,
    is_secret_value as is_secret_value,
)
from ipyagent.redaction.secret_patterns import (
    MASK as MASK,
    Secrecy as Secrecy,
    is_secret_name as is_secret_name,
    known_secrets as known_secrets,
    mask_arguments as mask_arguments,
    secrecy as secrecy,
    url_passwords as url_passwords,
)
