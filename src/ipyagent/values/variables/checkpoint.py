"""A checkpoint: what variables held before a call and what it left, to take the call back.

How a value is captured depends on its exact type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Any, Protocol

from ipyagent.redaction import Secrecy, secrecy
from ipyagent.schema import VariableChange
from ipyagent.values import Variables
from ipyagent.values.describe.safe_inspect import one_line, type_name
from ipyagent.values.variables.arrays import ArrayPart, is_array
from ipyagent.values.variables.parts import (
    ATOMS,
    INSIDE,
    ContainerPart,
    Fixed,
    Opaque,
    Part,
    are_plain_keys,
    has_state,
    is_atom,
    is_container,
    summarize_types,
)
from ipyagent.values.variables.tables import DerivedPart, TablePart, is_table, read_base

ELEMENTS = 100_000
"""Elements of all containers of a variable that a snapshot looks at."""
CONTAINERS = 10_000

COPIED = 256 * 2**20
"""Bytes that one snapshot copies: more would keep the user waiting."""

_EDITED = "has changed since, so it is left as it is"
TOO_LARGE = "it is larger than what undo may keep"
TOO_MANY = "it holds too many objects, or keys of classes of yours"


Undone = Mapping[int, Part]
"""The contents of objects once newer calls are taken back, by their ids."""


class TooLargeError(Exception):
    """The containers hold more than a snapshot looks at, or keys of the user's classes."""


@dataclass
class Allowance:
    """Bytes that captures may still copy, and bytes of what may share its memory with them."""

    left: int
    limit: int
    copies_all: bool = False
    """True if tables are copied where they could share their memory: code writes past pandas."""

    def admit(self, part: Part) -> bool:
        """Return whether what a part holds may be copied or shared."""
        if part.nbytes > min(self.limit, self.limit if part.shares else self.left):
            return False
        self.limit -= part.nbytes
        self.left -= 0 if part.shares else part.nbytes
        return True

    def copy(self, part: Part) -> bool:
        """Copy what a part holds if that may be."""
        if is_admitted := self.admit(part):
            part.copy(wholly=self.copies_all)
        return is_admitted


def read_part(value: Any, *, inside: bool = False) -> Part:
    """Return what an object holds, depending on its exact type; nothing is copied.

    `inside`: it is in something else.
    """
    if is_table(value):
        return TablePart(value)
    if is_array(value):
        return ArrayPart(value)
    if is_container(value):
        return ContainerPart(value)
    if is_atom(value) and not has_state(value):
        return Fixed(value)
    return Opaque(value, inside=inside) if inside or not read_base(value) else DerivedPart(value)


def _walk(root: Part, read: Callable[[object], Part]) -> Iterator[Part]:
    """Yield a part, and those of what it holds, as `read` finds them.

    Of objects of which nothing is known only the first is yielded.
    """
    waiting, seen, left, most = [root], {root.identity.address}, ELEMENTS, CONTAINERS
    is_opaque = False
    while waiting:
        part = waiting.pop()
        if isinstance(part, ContainerPart):
            if part.count > left or not most or not are_plain_keys(part.keys):
                if part.is_in_cell:  # it may stay as the call leaves it
                    continue
                raise TooLargeError
            left, most = left - part.count, most - 1
        yield part
        of_class = [(part.place, part.type)] if part is not root and has_state(part.type) else []
        for place, each in chain(part.list_inside(), of_class):
            if id(each) in seen or id(type(each)) in ATOMS:
                continue
            seen.add(id(each))
            found = read(each)
            found.place = part.place or place
            found.is_in_cell = part.is_in_cell or not isinstance(part, ContainerPart)
            if isinstance(found, Opaque) and not found.is_followed:
                if not is_opaque:
                    is_opaque = True
                    yield found
            elif not isinstance(found, Fixed):
                waiting.append(found)


class Capture:
    """The state of a value, and of all that it holds, as exactly as `keep` permits.

    `keep` copies what a part holds; it returns False if that is too large.
    """

    is_inside = False
    """True if the call changed the object itself: only then what it holds is put back."""

    def __init__(self, value: object, keep: Callable[[Part], bool] = lambda part: True) -> None:
        self._keep = keep
        self.parts: list[Part] = []
        try:
            self.parts.append(self._read(value))
            if isinstance(self.root, ArrayPart):  # its owner may resize one that nobody refers to
                self.root.value = None
            self.parts += islice(_walk(self.root, self._read), 1, None)
        except TooLargeError:
            self.parts = [Opaque(value, TOO_MANY)]
        except Exception:  # a table library's own object can be broken
            self.parts = [Opaque(value, "")]
        hidden = (each for each in self.parts[1:] if isinstance(each, Opaque))
        self.problem = next((each.kept for each in hidden if not each.is_followed), "")
        """Why not all that is inside goes back; "" if it does."""

    def _read(self, value: object) -> Part:
        part = read_part(value, inside=(inside := bool(self.parts)))
        # Memory that the user's code frees is freed.
        return part if self._keep(part) else Opaque(value, TOO_LARGE, held=False, inside=inside)

    @property
    def root(self) -> Part:
        """The part of the value itself."""
        return self.parts[0]

    def compare(self, value: object, secret: Secrecy) -> str | None:
        """Return what is different in the object, given once more; None if nothing is."""
        now = self._read_alike(value)
        places = [each.place for each in self.parts[1:] if each.is_changed()]
        text = self.root.compare(now, secret) if now else ""
        if text is None and not places:
            return None
        places = [each for each in places if not text or each != INSIDE]
        return " · ".join(dict.fromkeys(filter(None, (text, *places))))

    def summarize(self, value: object, secret: Secrecy) -> str:
        """Return what is different in another value."""
        now = self._read_alike(value)
        return self.root.describe(now, secret) if now else ""

    def _read_alike(self, value: object) -> Part | None:
        """Return what a value holds; None if it is of another kind."""
        now = Opaque(value) if type(self.root) is Opaque else read_part(value)
        return now if type(now) is type(self.root) else None

    def was_changed(self) -> bool:
        """Return whether the object holds something else now; False if it is not kept."""
        with suppress(Exception):  # a table library's own object can be broken
            value = self.root.value
            return value is not None and self.compare(value, Secrecy.NONE) is not None
        return False

    def is_left(self, root: Part, undone: Undone) -> bool:
        """Return whether a part is of the same object, and all in it holds the same."""
        if isinstance(self.root, Opaque) and root.value is not None:
            root = type(self.root)(root.value)
        parts = _walk(root, lambda each: undone.get(id(each)) or read_part(each, inside=True))
        pairs = zip_longest(self.parts, parts)
        return all(one and now and one.is_state_of(now) for one, now in pairs)

    def drop_unchanged(self) -> None:
        """Forget what the call has not changed."""
        self.parts[1:] = [each for each in self.parts[1:] if each.is_changed()]
        for each in self.parts:
            each.trim()

    def restore(self, live: Mapping[int, object]) -> tuple[object, str]:
        """Return the value as it was, put back in place, or a copy; and why not all is as it was.

        `live` has the objects that variables hold now, by their ids.
        """
        value, problems = self.root.find(live), list[str]()
        for part in self.parts if self.is_inside else ():
            found = value if part is self.root else part.value
            try:
                if found is not None and part.is_changed(found):
                    part.put_back(found)
                    if part is not self.root and part.is_changed(found):
                        raise ValueError("it has another size, or is read-only")
            except Exception as error:  # such as a bytearray that something looks into
                why = one_line(str(error))
                problems.append(part.kept or f"its {type_name(part.type)} stays as it is ({why})")
        problems.append(self.problem if self.is_inside else "")
        return self.root.replace(value), problems[0]

    def release(self) -> None:
        """Keep nothing alive: it is only compared with."""
        for part in self.parts:
            part.release()

    def size(self, live: Collection[int]) -> int:
        """Return the bytes that are held only by this; `live` are the ids of variables' values."""
        if self.root.identity.is_gone:  # no variable can hold it again
            self.parts = [Part(None)]
        is_live = self.root.identity.address in live
        return sum(part.size(is_live=is_live) for part in self.parts)


def capture_result(value: object) -> Capture:
    """Return the state that a call left: it is only compared with."""
    allowance = Allowance(COPIED, 2**62)
    found = Capture(
        value, lambda part: isinstance(part, ArrayPart | Opaque) or allowance.copy(part)
    )
    found.release()
    return found


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
            if old is not None and (old.root.identity.is_same(value) or old.was_changed()):
                old.is_inside = True
                with suppress(Exception):  # a table library's own object can be broken
                    old.drop_unchanged()
            self.entries.append(Entry(each.name, old, after, each.kept))
        self.most = self.size(())
        """The bytes that it keeps at most, whatever variables hold later."""

    @property
    def names(self) -> list[str]:
        """The names of the variables."""
        return [each.name for each in self.entries]

    def size(self, live: Collection[int]) -> int:
        """Return the bytes that only this keeps; copies of objects that are gone are freed.

        `live` are the ids of the variables' values.
        """
        both = (capture for each in self.entries for capture in (each.before, each.after))
        captures = {id(capture): capture for capture in both if capture is not None}
        total = 0
        for capture in captures.values():
            with suppress(Exception):  # somebody may be changing the object in another thread
                total += capture.size(live)
        return total

    def drop(self) -> None:
        """Free what it keeps; from now on it can take nothing back."""
        self.entries, self.is_dropped, self.most = [], True, 0


class Bindings(Protocol):
    """A namespace of which the dictionary is known."""

    def variables(self) -> Mapping[str, object]:
        """Return the variables by name."""

    def bindings(self) -> Variables:
        """Return the dictionary in which code finds and binds names."""


@dataclass
class VariableUndo:
    """Takes calls back, the newest first; if `dry_run`, only finds out what that does."""

    namespace: Bindings
    dry_run: bool = False
    restored: dict[str, str] = field(default_factory=dict)
    """What going back does to each variable, in words; "" if that is not known."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why variables stay that have changed since."""
    notes: dict[str, str] = field(default_factory=dict)
    """Why a variable, or a part of it, cannot go back."""
    _variables: Mapping[str, object] = field(default_factory=dict)
    _found: dict[str, Capture | None] = field(default_factory=dict)
    """The values that the calls to be taken back found, by name; None: no variable."""
    _undone: dict[int, Part] = field(default_factory=dict)
    """The contents of objects once these calls are taken back, by their ids."""

    def take_back(self, *checkpoints: VariableCheckpoint) -> None:
        """Take back calls, the newest first: all is decided before anything is done."""
        self._variables = self.namespace.variables()
        steps = [self._choose(each) for each in checkpoints]
        if not self.dry_run:
            for entries in steps:
                self._restore(entries)

    def _choose(self, checkpoint: VariableCheckpoint) -> list[Entry]:
        """Return the entries of a call that go back, and note what is undone by that."""
        ready = [each for each in checkpoint.entries if self._may_go_back(each)]
        others = [each for each in checkpoint.entries if each not in ready]
        edited = {id(each.before) for each in others if self._still_holds(each)}
        for each in [each for each in ready if id(each.before) in edited]:
            self.skipped[each.name] = f"{one_line(each.name)} stays: what it held {_EDITED}"
            ready.remove(each)
        for each in ready:
            before = self._found[each.name] = each.before
            for part in before.parts if before and before.is_inside else ():
                address = part.identity.address
                self._undone[address] = part.complete(self._undone.get(address))
        self.restored |= {each.name: self._describe(each) for each in ready}
        return ready

    def _may_go_back(self, entry: Entry) -> bool:
        name, label = entry.name, one_line(entry.name)
        if name in self.skipped or name in self.notes:
            return False
        is_known, is_left = name in self._found, self._is_left(entry)
        if is_left:
            text = f"{label} stays: {entry.kept}" if entry.kept else ""
        elif is_known:
            text = f"{label} goes back only to what it was given between two calls"
        else:
            text = f"{label} {_EDITED}"
        if text:
            (self.notes if is_known or is_left else self.skipped)[name] = text
        return not text

    def _is_left(self, entry: Entry) -> bool:
        """Return whether a variable is as the call left it, once newer calls are taken back."""
        name, after, known = entry.name, entry.after, self._found
        is_there = known[name] is not None if name in known else name in self._variables
        if after is None or not is_there:
            return after is None and not is_there
        with suppress(Exception):  # a table library's own object can be broken
            found = known.get(name)
            value = found.root.find({}) if found else self._variables[name]
            part = found.root if found and value is None else self._undone.get(id(value))
            return after.is_left(part or read_part(value), self._undone)
        return False

    def _still_holds(self, entry: Entry) -> bool:
        """Return whether the variable holds the object that it held, which the call changed."""
        before, found = entry.before, self._found.get(entry.name)
        if entry.kept or before is None or not before.is_inside:
            return False
        if found is not None:
            return found.root.identity.address == before.root.identity.address
        return before.root.identity.is_same(self._variables.get(entry.name))

    def _describe(self, entry: Entry) -> str:
        """Return what going back to what the call found does to a variable."""
        before, name, text = entry.before, entry.name, ""
        if before is None or name not in self._variables:
            return "removes it" if before is None else "brings it back"
        with suppress(Exception):
            now, root = read_part(self._variables[name]), before.root
            found = self._undone.get(root.identity.address, root)
            text = summarize_types(now.type, root.type) or now.describe(found, secrecy(name))
        return text

    def _restore(self, entries: list[Entry]) -> None:
        variables, names = self.namespace.variables(), self.namespace.bindings()
        live = {id(value): value for value in variables.values()}
        done: dict[int, tuple[object, str]] = {}
        for entry in [each for each in entries if each.name not in self.skipped]:
            name, before, held = entry.name, entry.before, variables.get(entry.name)
            if before is None:
                names.pop(name, None)
                continue
            if id(before) not in done:
                done[id(before)] = before.restore(live)
            names[name], problem = done[id(before)]
            # Another array may have got the place of one that the call has left alone.
            is_replaced = before.is_inside and names[name] is not held
            if problem:
                self.notes[name] = f"{one_line(name)} is not all as it was: {problem}"
            elif is_replaced and before.root.identity.is_same(held):
                other = "what else holds the changed one still does"
                self.notes[name] = f"{one_line(name)} goes back as another object: {other}"
