"""The base of all data: frozen, strict about what comes in, lossless through JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
)

from ipyagent.schema.arguments import as_json, well_formed


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the moment is not in the years 1 to 9999") from None


Flag = StrictBool

Count = Annotated[int, Field(ge=0, strict=True)]
"""A number of things: JSON tells whole numbers from text and from true, and so do we."""

Positive = Annotated[int, Field(ge=1, strict=True)]

Amount = Annotated[float, Field(ge=0, strict=True)]
"""Seconds or US dollars."""

Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A point in time, from a datetime with a zone, its text, or seconds since 1970."""

Text = Annotated[str, AfterValidator(well_formed)]
"""What is said. Lone surrogates are replaced: nothing could store or send them."""

OrEmpty = Annotated[str, BeforeValidator(lambda text: "" if text is None else text)]
"""Text where others say null for none."""

JsonValue = Annotated[Any, AfterValidator(as_json)]
"""Anything that JSON can say; NaN, infinity and endless nesting are refused."""

JsonObject = Annotated[dict[str, Any], AfterValidator(as_json)]
"""A JSON object, with the same care."""


class Model(BaseModel):
    """A frozen record. Sequences are tuples; a change is a new record (`model_copy`).

    Fields also answer to the names that other formats give them (their `validation_alias`).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
    )

    def to_dict(self, *, exclude_none: bool = False) -> dict[str, Any]:
        """The record as plain JSON types."""
        return self.model_dump(mode="json", exclude_none=exclude_none)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The record that `to_dict` described; raises pydantic.ValidationError otherwise."""
        return cls.model_validate(data)


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)
