"""The logger `ipyagent`: silent until the person gives it a handler.

    logging.getLogger("ipyagent").addHandler(logging.FileHandler("ipyagent.log"))

Failures are logged there with their tracebacks.
"""

from __future__ import annotations

import logging
from typing import Literal

Level = Literal["debug", "info", "warn", "error"]

_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


def setup(level: Level = "info") -> None:
    """Let the logger pass on records from `level` on, and print nothing of its own accord."""
    logger = logging.getLogger("ipyagent")
    logger.setLevel(_LEVELS[level])
    # Where nobody handles a warning, Python prints it to stderr, and that is the person's cell.
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())
