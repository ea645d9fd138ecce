"""Requests to models; and the process's environment, prepared for litellm, and as it started.

Left alone, litellm's import reads the `.env` of the working folder into the process (which may
redirect a key to the author of that file) and fetches a price list from the network.
`prepare_environment` switches both off; it has to run before anybody imports litellm. This package
imports nothing heavy, so that loading the extension can afford it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

ENVIRONMENT = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

_snapshot = dict(os.environ)

was_imported = "litellm" in sys.modules
"""True if the user had imported litellm before."""


def prepare_environment() -> None:
    """Set the variables that litellm's import reads, if the user has not set them."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def forget_environment() -> None:
    """Forget the environment at the start, with the keys in it."""
    for each in (_snapshot, start_environ()):
        each.clear()


@cache
def start_environ() -> dict[str, str]:
    """Return the environment with which this process was started.

    If the system does not tell, the one when this module was imported.
    """
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return _snapshot
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
