"""The base of all records: frozen, strict about input, lossless through JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    VERSION,
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    model_validator,
)

from ipyagent.json_types import JsonDict, as_json, well_formed


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time must be in the years 1 to 9999") from None


Flag = StrictBool

Count = Annotated[int, Field(ge=0, strict=True)]
"""A number of things: JSON distinguishes whole numbers from text and true, and so do we."""

Positive = Annotated[int, Field(ge=1, strict=True)]

Amount = Annotated[float, Field(ge=0, strict=True)]
"""Seconds or US dollars."""

Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A point in time, from a datetime with a zone, its text, or seconds since 1970."""

Text = Annotated[str, AfterValidator(well_formed)]
"""A text. Lone surrogates are replaced: nothing could store or send them."""

OrEmpty = Annotated[str, BeforeValidator(lambda text: "" if text is None else text)]
"""A text for which other formats have null if there is none."""

JsonValue = Annotated[Any, AfterValidator(as_json)]
"""Anything that JSON can express; NaN, infinity and endless nesting are refused."""

JsonObject = Annotated[JsonDict, AfterValidator(as_json)]
"""A JSON object, validated the same way."""


class Model(BaseModel):
    """A frozen record. Sequences are tuples; a change is a new record (`model_copy`).

    Fields also have the names of other formats (their `validation_alias`), for input and for
    reading.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
    )

    if not TYPE_CHECKING:  # else every misspelt attribute would pass the type checker

        def __getattr__(self, name: str) -> Any:
            field = _aliases(type(self)).get(name)
            return super().__getattr__(name) if field is None else getattr(self, field)

    def to_dict(self, *, exclude_none: bool = False) -> JsonDict:
        """Return the record as plain JSON types."""
        return self.model_dump(mode="json", exclude_none=exclude_none)

    @classmethod
    def from_dict(cls, data: JsonDict) -> Self:
        """Return the record that `to_dict` described; raises pydantic.ValidationError otherwise."""
        return cls.model_validate(data)


class ForeignModel(Model):
    """A record that other formats have as well: `_convert` makes their data ours."""

    _convert: ClassVar[Callable[[JsonDict], object]]

    @model_validator(mode="before")
    @classmethod
    def _accept(cls, data: object) -> object:
        return cls._convert(dict(data)) if isinstance(data, Mapping) else data


BUILDS_SAFELY = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""True if pydantic builds a model at its first use under a lock.

Before, two threads that needed it at the same time could validate with its base class.
"""


class LazyModel(Model):
    """A record that pydantic builds at its first use, for those that few processes need.

    Not for what other records hold: each of these would build it again.
    """

    model_config = ConfigDict(defer_build=BUILDS_SAFELY)


@cache
def _aliases(model: type[BaseModel]) -> dict[str, str]:
    """Map the other names of a model's fields to the fields."""
    return {
        alias: name
        for name, field in model.model_fields.items()
        if isinstance(field.validation_alias, AliasChoices)
        for alias in field.validation_alias.choices
        if isinstance(alias, str) and alias != name
    }


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)
