"""Names for JSON whose contents are checked where they are read, not where they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonDict: TypeAlias = dict[str, Any]
"""A JSON object as `json.loads` returns it, or one that is being built."""

JsonMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""
