"""The process's environment: what litellm must find in it, and what it was at the start.

Left alone, litellm's import reads the `.env` of the working folder into the process (which may
redirect a key to whoever wrote that file) and fetches a price list from the network. `prepare`
switches both off; it has to come before anybody's import of litellm. This module imports nothing
heavy, so that loading the extension can afford it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

_snapshot = dict(os.environ)


def prepare() -> None:
    """Set what litellm's import reads, where the person has not set it themselves."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def start_environ() -> Mapping[str, str]:
    """The environment that this process was started with.

    Where the system does not tell, the one that this module found when it was imported.
    """
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return _snapshot
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
