"""A checkpoint: what variables held before a call and what it left, to take the call back.

How a value is captured depends on its exact type.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from ipyagent.kernel.describe.safe_inspect import one_line
from ipyagent.kernel.shell import Variables
from ipyagent.kernel.variables.arrays import ArrayCapture, ArrayChecksum, holds_objects, is_array
from ipyagent.kernel.variables.captures import (
    Allowance,
    Capture,
    Described,
    Reference,
    explain_type,
    has_state,
    is_atom,
    summarize_types,
)
from ipyagent.kernel.variables.containers import (
    ContainerCapture,
    TooLargeError,
    is_container,
)
from ipyagent.kernel.variables.tables import OBJECTS, Table, TableCapture, is_table
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
        is_fixed = is_atom(value) and not has_state(value)
        return Reference(value) if is_fixed else Described(value)
    except TooLargeError:
        return Described(value, TOO_MANY)
    except Exception:  # a table library's own object can be broken
        return Described(value, "")


def explain_lasting(value: Any, memory: int) -> str:
    """Return why a change inside of an object could not be taken back; "" if it can be."""
    if is_table(value):
        return TOO_LARGE if Table.read(value).nbytes > memory else ""
    if is_array(value):
        return TOO_LARGE if value.nbytes > min(COPIED, memory) else ""
    if is_container(value):
        try:
            return ContainerCapture(
                value, lambda each: Capture(each) if is_table(each) or is_array(each) else None
            ).opaque
        except TooLargeError:
            return TOO_MANY
    return explain_type(type(value))


def capture_result(value: object) -> Capture:
    """Return the state that a call left: it is only compared with."""
    found = capture(value, Allowance(COPIED, 2**62, only_compares=True))
    found.release()
    return found


def _capture_inside(value: Any, allowance: Allowance) -> Capture | None:
    """Return the state of a value of a known kind; None if no code is known that reads it."""
    found: Capture | None = None
    inside = functools.partial(_capture_inside, allowance=allowance)
    if is_table(value):
        found = TableCapture.take(value, allowance, inside)
    elif is_array(value):
        if allowance.only_compares and not holds_objects(value):
            return ArrayChecksum(value)
        if allowance.spend(value.nbytes):
            found = ArrayCapture(value, _capture_cells(value, inside))
    else:
        return ContainerCapture(value, inside) if is_container(value) else None
    # Memory that the user's code frees is freed.
    return found or Described(value, TOO_LARGE, held=False)


def _capture_cells(array: object, inside: Callable[[object], Capture | None]) -> Capture | None:
    """Return the state of the objects in the cells of an array; None if there are none."""
    numpy = sys.modules["numpy"]
    if holds_objects(array) and numpy.size(array) <= OBJECTS:
        with suppress(TooLargeError):
            found = ContainerCapture(numpy.ravel(array).tolist(), inside)
            found.is_inside = True
            return found
    return None


@dataclass
class Entry:
    """One variable before and after a call; None: there was none of that name."""

    name: str
    before: Capture | None
    after: Capture | None
    kept: str = ""
    """Why the change cannot be taken back."""


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
                with suppress(Exception):  # a table library's own object can be broken
                    old.drop_unchanged()
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
    """Takes calls back, the newest first; if `dry_run`, only finds out what that does."""

    namespace: Bindings
    dry_run: bool = False
    restored: dict[str, str] = field(default_factory=dict)
    """What going back does to each variable, in words; "" if that is not known."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why others stay as they are."""
    notes: dict[str, str] = field(default_factory=dict)
    """The part that is not as it was, of those that go back."""

    def take_back(self, *checkpoints: VariableCheckpoint) -> None:
        """Take back calls, the newest first: all is decided before anything is done."""
        plan = _Plan(self.namespace.variables())
        steps = [self._choose(each, plan) for each in checkpoints]
        if not self.dry_run:
            for entries in steps:
                self._restore(entries)

    def _choose(self, checkpoint: VariableCheckpoint, plan: _Plan) -> list[Entry]:
        """Return the entries of a call that go back, and note that in the plan."""
        ready = [each for each in checkpoint.entries if self._may_go_back(each, plan)]
        others = [each for each in checkpoint.entries if each not in ready]
        edited = {id(each.before) for each in others if plan.still_holds(each)}
        for each in ready:
            if id(each.before) in edited:
                self.skipped[each.name] = f"{one_line(each.name)} stays: what it held {_EDITED}"
        ready = [each for each in ready if each.name not in self.skipped]
        for each in ready:
            plan.add(each)
        self.restored |= {each.name: plan.describe(each) for each in ready}
        return ready

    def _may_go_back(self, entry: Entry, plan: _Plan) -> bool:
        name, label = entry.name, one_line(entry.name)
        if name in self.skipped or name in self.notes:
            return False
        is_known = name in plan.found
        if not plan.is_left(entry):
            if is_known:
                text = f"{label} goes back only to what it was given between two calls"
            else:
                text = f"{label} {_EDITED}"
        elif entry.kept:
            text = f"{label} stays: {entry.kept}"
        else:
            return True
        (self.notes if is_known else self.skipped)[name] = text
        return False

    def _restore(self, entries: list[Entry]) -> None:
        variables = self.namespace.variables()
        live = {id(value): value for value in variables.values()}
        done: dict[int, object] = {}
        bound: dict[str, object] = {}
        for entry in entries:
            before, name, problems = entry.before, entry.name, list[str]()
            if before is None or name in self.skipped:
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


class _Plan:
    """The variables, and what they and their objects hold once some calls are taken back."""

    def __init__(self, variables: Mapping[str, object]) -> None:
        self.variables = variables
        self.found: dict[str, Capture | None] = {}
        """What the calls that are taken back found, by name; None: no variable."""
        self.undone: dict[object, Any] = {}

    def is_left(self, entry: Entry) -> bool:
        """Return whether a variable is as the call left it."""
        name, after = entry.name, entry.after
        is_there = self.found[name] is not None if name in self.found else name in self.variables
        if after is None or not is_there:
            return after is None and not is_there
        with suppress(Exception):  # a table library's own object can be broken
            found = self.found.get(name)
            held = self.variables[name] if found is None else found.kept_object
            if held is None and found is not None:  # such as an array, which is not referred to
                return after.matches(found)
            return after.is_state_of(held, self.undone)
        return False

    def still_holds(self, entry: Entry) -> bool:
        """Return whether the variable holds the object that it held, which the call changed."""
        before = None if entry.kept else entry.before
        if before is None or not before.is_inside:
            return False
        found = self.found.get(entry.name)
        if found is not None:
            return found.identity.address == before.identity.address
        return before.identity.is_same(self.variables.get(entry.name))

    def add(self, entry: Entry) -> None:
        """Take a call's change of a variable back."""
        before = self.found[entry.name] = entry.before
        if before is not None and before.is_inside:
            before.undo_in(self.undone)

    def describe(self, entry: Entry) -> str:
        """Return what going back to what the call found does to a variable."""
        before, name, text = entry.before, entry.name, ""
        if before is None or name not in self.variables:
            return "removes it" if before is None else "brings it back"
        with suppress(Exception):
            value = self.variables[name]
            text = summarize_types(type(value), before.type)
            text = text or before.describe_return(value, secrecy(name), self.undone)
        return text
