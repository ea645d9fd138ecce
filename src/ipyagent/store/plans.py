"""Plans as they are kept: what was shown, letter by letter, and the digest of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable

from ipyagent.schema import PlanStep, Run

NAMED = 12
"""Characters of a plan's digest that name it, in every card, command and message."""


def plan_name(plan: Iterable[PlanStep]) -> str:
    """Return the name by which users know a plan."""
    return plan_digest(plan)[:NAMED]


def plan_json(plan: Iterable[PlanStep]) -> str:
    """The plan as text, its arguments in the order in which they were given."""
    return json.dumps([step.to_dict() for step in plan])


def plan_digest(plan: Iterable[PlanStep]) -> str:
    """What a card shows, so that a person can tell that this plan is run and no other."""
    return digest_of(plan_json(plan))


def digest_of(text: str) -> str:
    """The SHA-256 of a plan as text, in hexadecimal digits; equal plans have the same."""
    with contextlib.suppress(ValueError):  # else it is no plan that we wrote
        text = json.dumps(json.loads(text), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def stripped(run: Run) -> str:
    """The run as text, without its plan."""
    return json.dumps(run.model_dump(mode="json", exclude={"plan", "steps"}))
