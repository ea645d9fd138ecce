"""The base of all data: frozen, strict about unknown keys, lossless through JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen record. Sequences are tuples; a change is a new record (`model_copy`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON types."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The record that `to_dict` described; raises pydantic.ValidationError otherwise."""
        return cls.model_validate(data)


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)
