"""The logger `ipyagent`: silent until the person gives it a handler.

    logging.getLogger("ipyagent").addHandler(logging.FileHandler("ipyagent.log"))

Failures are logged there with their tracebacks, and secrets nowhere.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Literal

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
    """Let the logger pass on records from `level` on, and print nothing of its own accord.

    They pass `redactor`; without one, what looks like a secret is hidden all the same.
    """
    logger = logging.getLogger("ipyagent")
    logger.setLevel(_LEVELS[level])
    for former in [each for each in logger.filters if isinstance(each, Discreet)]:
        logger.removeFilter(former)
    logger.addFilter(Discreet(redactor or Redactor()))
    # Where nobody handles a warning, Python prints it to stderr, and that is the person's cell.
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


class Discreet(logging.Filter):
    """Takes secrets out of a record's message, arguments, traceback and stack."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record on, clean."""
        text = self._redactor.text
        with contextlib.suppress(TypeError, ValueError):  # logging itself tells of a bad format
            message = record.getMessage()
            if (clean := text(message)) != message:
                record.msg, record.args = clean, ()
        record.args = self._redactor.data(record.args)
        if record.exc_info and not record.exc_text:
            told = _FORMATTER.formatException(record.exc_info)
            if (clean := text(told)) != told:
                # A handler with a format of its own would read the secret from the exception.
                record.exc_text, record.exc_info = clean, None
        record.stack_info = record.stack_info and text(record.stack_info)
        return True
