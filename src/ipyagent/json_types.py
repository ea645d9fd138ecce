"""Names for JSON whose contents are validated where they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonDict: TypeAlias = dict[str, Any]
"""A JSON object from `json.loads`, or one that is being built."""

JsonMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""
