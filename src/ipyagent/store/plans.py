"""Stored plans: exactly as shown, with a digest."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ipyagent.digests import digest_json, digest_text
from ipyagent.schema import PlanStep, Run

NAMED = 12
"""Characters of a plan's digest that name it, in every card, command and message."""


def plan_name(plan: Iterable[PlanStep]) -> str:
    """Return the name by which users know a plan."""
    return plan_digest(plan)[:NAMED]


def plan_json(plan: Iterable[PlanStep]) -> str:
    """Return the plan as text, its arguments in their original order."""
    return json.dumps([step.to_dict() for step in plan])


def plan_digest(plan: Iterable[PlanStep]) -> str:
    """Return the digest by which a card names a plan: this one runs and no other."""
    return digest_plan_text(plan_json(plan))


def digest_plan_text(text: str) -> str:
    """Return the digest of a plan as text; equal plans have the same."""
    try:
        plan = json.loads(text)
    except ValueError:  # no plan that we wrote
        return digest_text(text)
    return digest_json(plan)


def run_without_plan(run: Run) -> str:
    """Return the run as text, without its plan."""
    return json.dumps(run.model_dump(mode="json", exclude={"plan", "steps"}))
