"""Facts about a workspace as objects: its tables with their columns, its variables, its files.

The text of a prompt's context is written from the same structures. A client that follows rules
takes these instead of reading that text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

Kind = Literal["number", "date", "text", "bool", "other"]


@dataclass(frozen=True)
class ColumnFacts:
    """A column: `choices` are values of text, as far as known; a key differs in each row.

    The kind is what it holds: a column of text may be of the kind "date".
    """

    name: str
    dtype: str
    kind: Kind = "other"
    choices: tuple[str, ...] = ()
    is_key: bool = False


@dataclass(frozen=True)
class TableFacts:
    """A table in a variable, or in the file at `path`, which `call` loads.

    `columns` is None if nobody has looked at them, `call` is "" then. `changed` is when the file
    was changed last, in seconds since 1970, if it is known.
    """

    variable: str = ""
    path: str = ""
    call: str = ""
    library: Literal["pandas", "polars"] = "pandas"
    rows: int | None = None
    columns: tuple[ColumnFacts, ...] | None = None
    changed: float = inf


@dataclass(frozen=True)
class WorkspaceFacts:
    """The tables; all variables with the names of their types, or of the modules that they are.

    `is_cut`: there are more files than those listed.
    """

    tables: tuple[TableFacts, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    is_cut: bool = False
