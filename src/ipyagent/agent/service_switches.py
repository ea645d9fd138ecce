"""Services that are switched on or off for one notebook, in its session's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SERVICES = "services"
"""Key in a session's metadata: names such as `api:shop`, each on or off, as JSON."""


def read_switches(metadata: Mapping[str, Any]) -> dict[str, bool]:
    """Return the switches; metadata is free-form, so anything else counts as none."""
    try:
        switches = json.loads(metadata.get(SERVICES, "{}"))
    except (TypeError, ValueError):
        return {}
    named = switches.items() if isinstance(switches, dict) else ()
    return {name: on for name, on in named if isinstance(on, bool)}


def switches_to_metadata(switches: Mapping[str, bool]) -> dict[str, str]:
    """Return the metadata that `read_switches` reads."""
    return {SERVICES: json.dumps(dict(switches))}
