"""The user's values: described without running their code, and copied to take calls back."""

from typing import Any, TypeAlias

Variables: TypeAlias = dict[str, Any]
"""A namespace's variables, which may be anything."""
