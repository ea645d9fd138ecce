"""The logger `ipyagent`: silent until the user adds a handler.

    logging.getLogger("ipyagent").addHandler(logging.FileHandler("ipyagent.log"))

Failures are logged there with their tracebacks. Secrets are never logged.
"""

from __future__ import annotations

import contextlib
import logging
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ipyagent.redaction import Redactor

Level = Literal["debug", "info", "warn", "error"]

_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_FORMATTER = logging.Formatter()


def setup(level: Level = "info", redactor: Redactor | None = None) -> None:
    """Set the logger's level, and let it print nothing by default.

    Records pass `redactor`; without one, text that looks like a secret is still hidden.
    """
    logger = logging.getLogger("ipyagent")
    logger.setLevel(_LEVELS[level])
    for former in [each for each in logger.filters if isinstance(each, RedactingFilter)]:
        logger.removeFilter(former)
    logger.addFilter(RedactingFilter(redactor))
    # Where nobody handles a warning, Python prints it to stderr, and that is the user's cell.
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


class RedactingFilter(logging.Filter):
    """Redacts a record's message, arguments, traceback and stack."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._given = redactor

    @cached_property
    def _redactor(self) -> Redactor:
        """The redactor; its code is imported for the first record, not while ipyagent loads."""
        from ipyagent.redaction import Redactor

        return self._given or Redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact every record and pass it on; drop it if that is impossible."""
        try:
            text = self._redactor.text
        except (ImportError, OSError):  # no descriptor is left, perhaps
            return False
        with contextlib.suppress(TypeError, ValueError):  # logging itself reports a bad format
            message = record.getMessage()
            if (clean := text(message)) != message:
                record.msg, record.args = clean, ()
        record.args = self._redactor.data(record.args)
        if record.exc_info and not record.exc_text:
            trace = _FORMATTER.formatException(record.exc_info)
            if (clean := text(trace)) != trace:
                # A handler with a format of its own would read the secret from the exception.
                record.exc_text, record.exc_info = clean, None
        record.stack_info = record.stack_info and text(record.stack_info)
        return True
