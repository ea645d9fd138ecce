"""The choice of a capture for a value, by its exact type."""

from __future__ import annotations

from ipyagent.kernel.describe.safe_inspect import module_name, type_name
from ipyagent.kernel.variables.arrays import ArrayCapture, ArrayChecksum, is_array
from ipyagent.kernel.variables.captures import Allowance, Capture, Described, Reference
from ipyagent.kernel.variables.containers import ContainerCapture, TooLargeError, is_container
from ipyagent.kernel.variables.plain_values import is_atom, is_plain
from ipyagent.kernel.variables.tables import TableCapture, is_table

COPIED = 256 * 2**20
"""Bytes that one snapshot copies: more would keep the user waiting."""

TOO_LARGE = "it is larger than what undo may keep"
TOO_MANY = "it holds too many objects, or keys of classes of yours"


def capture(value: object, allowance: Allowance) -> Capture:
    """Return the state of a value, as exactly as the allowance permits."""
    if is_plain(value):
        return Reference(value)
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
        found = (
            ArrayChecksum(value) if is_array(value) else capture(value, Allowance(COPIED, 2**62))
        )
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
        found = ArrayCapture(value) if spent else None
    elif is_container(value):
        return ContainerCapture(value, lambda each: _capture_inside(each, allowance))
    else:
        return None
    # Memory that the user's code frees is freed.
    return found or Described(value, TOO_LARGE, held=False)


def _explain(value: object) -> str:
    cls = type(value)
    home = module_name(cls).partition(".")[0]
    where = "" if home in {"", "__main__", "builtins"} else f" of {home}"
    return f"changes inside a {type_name(cls)}{where} cannot be taken back"
