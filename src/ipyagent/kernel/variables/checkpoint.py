"""A checkpoint: what variables held before a call and what it left, to take the call back.

How a value is captured depends on its exact type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from ipyagent.kernel.describe.safe_inspect import module_name, one_line, type_name
from ipyagent.kernel.protocols import Variables
from ipyagent.kernel.variables.arrays import ArrayCapture, ArrayChecksum, holds_objects, is_array
from ipyagent.kernel.variables.captures import (
    Allowance,
    Capture,
    Described,
    Reference,
    is_atom,
    summarize_types,
)
from ipyagent.kernel.variables.containers import ContainerCapture, TooLargeError, is_container
from ipyagent.kernel.variables.tables import OBJECTS, TableCapture, is_table
from ipyagent.redaction import secrecy
from ipyagent.schema import VariableChange

COPIED = 256 * 2**20
"""Bytes that one snapshot copies: more would keep the user waiting."""

_EDITED = "has changed since, so it is left as it is"
TOO_LARGE = "it is larger than what undo may keep"
TOO_MANY = "it holds too many objects, or keys of classes of yours"


def capture(value: object, allowance: Allowance) -> Capture:
    """Return the state of a value, as exactly as the allowance permits."""
    try:
        if (found := _capture_inside(value, allowance)) is not None:
            return found
        return Reference(value) if is_atom(value) else Described(value, _explain(value))
    except TooLargeError:
        return Described(value, TOO_MANY)
    except Exception:  # a table library's own object can be broken
        return Reference(value)


def capture_result(value: object) -> Capture:
    """Return the state that a call left: it is only compared with."""
    try:
        is_summed = is_array(value) and not holds_objects(value)
        found = ArrayChecksum(value) if is_summed else capture(value, Allowance(COPIED, 2**62))
    except Exception:  # an array's type without bytes of its own
        found = Described(value, "")
    found.release()
    return found


def _capture_inside(value: object, allowance: Allowance) -> Capture | None:
    """Return the state of a value of a known kind; None if no code is known that reads it."""
    found: Capture | None = None
    if is_table(value):
        found = TableCapture.take(value, allowance, lambda each: _capture_inside(each, allowance))
    elif is_array(value):
        spent = allowance.spend(value.nbytes)  # type: ignore[attr-defined]
        found = ArrayCapture(value, _capture_cells(value, allowance)) if spent else None
    elif is_container(value):
        return ContainerCapture(value, lambda each: _capture_inside(each, allowance))
    else:
        return None
    # Memory that the user's code frees is freed.
    return found or Described(value, TOO_LARGE, held=False)


def _capture_cells(array: object, allowance: Allowance) -> Capture | None:
    """Return the state of the objects in the cells of an array; None if there are none."""
    numpy = sys.modules["numpy"]
    if holds_objects(array) and numpy.size(array) <= OBJECTS:
        with suppress(TooLargeError):
            cells = numpy.ravel(array).tolist()
            found = ContainerCapture(cells, lambda each: _capture_inside(each, allowance))
            found.is_inside = True
            return found
    return None


def _explain(value: object) -> str:
    cls = type(value)
    home = module_name(cls).partition(".")[0]
    where = "" if home in {"", "__main__", "builtins"} else f" of {home}"
    return f"changes inside a {type_name(cls)}{where} cannot be taken back"


@dataclass
class Entry:
    """One variable before and after a call; None: there was none of that name."""

    name: str
    before: Capture | None
    after: Capture | None
    kept: str = ""
    """Why the change cannot be taken back."""

    def is_left(self, variables: Mapping[str, object]) -> bool:
        """Return whether the variable is as the call left it."""
        if self.after is None or self.name not in variables:
            return self.after is None and self.name not in variables
        with suppress(Exception):  # a table library's own object can be broken
            return self.after.is_state_of(variables[self.name])
        return False

    def still_holds(self, variables: Mapping[str, object]) -> bool:
        """Return whether the variable holds the object that it held, which the call changed."""
        before = None if self.kept else self.before
        if before is None or not before.is_inside:
            return False
        return before.identity.is_same(variables.get(self.name))

    def describe(self, variables: Mapping[str, object]) -> str:
        """Return what was done to the variable since."""
        if self.before is None or self.name not in variables:
            return "created" if self.before is None else "deleted"
        value, text = variables[self.name], ""
        with suppress(Exception):
            text = summarize_types(self.before.type, value)
            text = text or self.before.summarize(value, secrecy(self.name))
        return text or "changed"


class VariableCheckpoint:
    """The variables that a call changed, before and after it."""

    def __init__(
        self,
        changes: tuple[VariableChange, ...],
        before: Callable[[str], Capture | None],
        variables: Mapping[str, object],
    ) -> None:
        self.changes = changes
        self.entries: list[Entry] = []
        self.is_dropped = False
        left: dict[int, Capture] = {}
        for each in changes:
            old = before(each.name) if each.change != "created" else None
            after, value = None, variables.get(each.name)
            if each.change != "deleted":
                after = left.get(id(value)) or capture_result(value)
                left[id(value)] = after
            if old is not None and (old.identity.is_same(value) or old.was_changed()):
                old.is_inside = True
            self.entries.append(Entry(each.name, old, after, each.kept))

    @property
    def names(self) -> list[str]:
        """The names of the variables."""
        return [each.name for each in self.entries]

    def size(self, live: Collection[int]) -> int:
        """Return the bytes that only this keeps; `live` are the ids of the variables' values."""
        both = (capture for each in self.entries for capture in (each.before, each.after))
        captures = {id(capture): capture for capture in both if capture is not None}
        total = 0
        for capture in captures.values():
            with suppress(Exception):  # somebody may be changing the object in another thread
                total += capture.size(live)
        return total

    def forget_dead(self) -> None:
        """Free copies of objects that are gone: no variable can be as the call left it."""
        for each in self.entries:
            if each.after is not None:
                each.after.forget_if_dead()

    def drop(self) -> None:
        """Free what it keeps; from now on it can take nothing back."""
        self.entries, self.is_dropped = [], True


class Bindings(Protocol):
    """A namespace of which the dictionary is known."""

    def variables(self) -> Mapping[str, object]:
        """Return the variables by name."""
        ...

    def bindings(self) -> Variables:
        """Return the dictionary in which code finds and binds names."""
        ...


@dataclass
class VariableUndo:
    """Takes calls back, the newest first; if `dry_run`, finds out what that would do."""

    namespace: Bindings
    dry_run: bool = False
    restored: dict[str, str] = field(default_factory=dict)
    """The change that is taken back, by variable."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why others stay as they are."""
    notes: dict[str, str] = field(default_factory=dict)
    """The part that is not as it was, of those that went back."""

    def take_back(self, checkpoint: VariableCheckpoint) -> None:
        """Take back the newest call that is left."""
        variables = self.namespace.variables()
        ready = [each for each in checkpoint.entries if self._may_go_back(each, variables)]
        others = (each for each in checkpoint.entries if each not in ready)
        edited = {id(each.before) for each in others if each.still_holds(variables)}
        self.skipped |= {
            each.name: f"{one_line(each.name)} stays: what it held {_EDITED}"
            for each in ready
            if id(each.before) in edited
        }
        ready = [each for each in ready if each.name not in self.skipped]
        self.restored |= {each.name: each.describe(variables) for each in ready}
        if not self.dry_run:
            self._restore(ready, variables)

    def _may_go_back(self, entry: Entry, variables: Mapping[str, object]) -> bool:
        name, label = entry.name, one_line(entry.name)
        if name in self.skipped or name in self.notes:
            return False
        is_known = name in self.restored  # then it is what a newer call found
        if not (is_known and self.dry_run) and not entry.is_left(variables):
            if is_known:
                text = f"{label} goes back to what somebody else made of it between two calls"
            else:
                text = f"{label} {_EDITED}"
        elif entry.kept:
            text = f"{label} stays: {entry.kept}"
        else:
            return True
        (self.notes if is_known else self.skipped)[name] = text
        return False

    def _restore(self, entries: list[Entry], variables: Mapping[str, object]) -> None:
        live = {id(value): value for value in variables.values()}
        done: dict[int, object] = {}
        bound: dict[str, object] = {}
        for entry in entries:
            before, name, problems = entry.before, entry.name, list[str]()
            if before is None:
                continue
            try:
                if id(before) not in done:
                    done[id(before)] = before.restore(live, problems)
            except Exception as error:  # such as a table that a library's new release changed
                self.skipped[name] = f"{one_line(name)} stays: {one_line(str(error))}"
                del self.restored[name]
                continue
            bound[name], value = done[id(before)], variables.get(name)
            if problems:
                self.notes[name] = f"{one_line(name)} is not all as it was: {problems[0]}"
            elif bound[name] is not value and before.identity.is_same(value):
                other = "what else holds the changed one still does"
                self.notes[name] = f"{one_line(name)} goes back as another object: {other}"
        names = self.namespace.bindings()
        names.update(bound)
        for entry in entries:
            if entry.before is None:
                names.pop(entry.name, None)
