"""A capture: the state of one object at one moment, to compare with and to go back to."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from ipyagent.kernel.describe import describe
from ipyagent.kernel.describe.preview import preview
from ipyagent.kernel.describe.safe_inspect import ObjectIdentity, ancestors, class_dict, type_name
from ipyagent.kernel.variables.plain_values import is_equal, is_plain
from ipyagent.redaction import Secrecy

VALUE = 40
"""Characters of a value in a summary."""


@dataclass
class Allowance:
    """Bytes that captures may still copy, and the limit for what shares its memory."""

    left: int
    limit: int

    def spend(self, size: int) -> bool:
        """Return whether that many bytes may be copied."""
        if size > self.left:
            return False
        self.left -= size
        return True


class Capture:
    """The state of an object. This one knows no more than which object it was."""

    kept = ""
    """Why a change inside of the object cannot be taken back; "" if it can."""

    def __init__(self, value: object) -> None:
        self.identity = ObjectIdentity(value)
        self.type = type(value)

    def is_changed(self, value: object) -> bool:
        """Return whether the object, given once more, holds something else now."""
        return False

    def summarize(self, value: object, secret: Secrecy) -> str:
        """Return what is different in the value, which is this object or another one."""
        return ""

    @property
    def can_rebind(self) -> bool:
        """True if a name can be bound to what it held."""
        return self.identity.value is not None


class Reference(Capture):
    """A value that cannot change, or of which only the reference is kept."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self._value = value

    @override
    def summarize(self, value: object, secret: Secrecy) -> str:
        return summarize_scalars(self._value, value, secret)

    @property
    @override
    def can_rebind(self) -> bool:
        return True


class Described(Capture):
    """An object of whose inside only the description is known, such as a model or a connection."""

    def __init__(self, value: object, kept: str, *, alive: bool = True) -> None:
        super().__init__(value)
        self.kept = kept
        # Whoever closes itself when nothing refers to it any longer must not be kept from that.
        self._value = value if alive and not _has_finalizer(type(value)) else None
        self._description = describe("", value, detail=False)

    @override
    def is_changed(self, value: object) -> bool:
        return self._description != describe("", value, detail=False)

    @property
    @override
    def can_rebind(self) -> bool:
        return self._value is not None or super().can_rebind


def _has_finalizer(cls: type) -> bool:
    """Return whether objects of the class do something when they are freed, such as closing."""
    return any("__del__" in class_dict(base) for base in ancestors(cls))


def summarize_scalars(before: object, after: object, secret: Secrecy) -> str:
    """Return how two plain values differ; "" if they are none, or secret."""
    if secret is Secrecy.SURE or not (is_plain(before) and is_plain(after)):
        return ""
    if is_equal(before, after):
        return ""
    old, new = (preview(each, secret=secret, limit=VALUE) for each in (before, after))
    return f"{old} → {new}" if old != new else ""


def summarize_types(before: type, after: object) -> str:
    """Return how the type differs; "" if it does not."""
    one, other = type_name(before), type_name(type(after))
    return f"{one} → {other}" if one != other else ""
