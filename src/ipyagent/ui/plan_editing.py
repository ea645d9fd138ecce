"""Edit a plan at a text prompt: step by step, arguments as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ipyagent.schema import PlanStep, ToolCall
from ipyagent.ui.reveal import reveal


def edit_plan(ask: Callable[[str], str], plan: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Return the plan as the user edited it; it keeps at least one step."""
    steps = list(plan)
    while True:
        rows = "\n".join(f"  {number} {_row(step)}" for number, step in enumerate(steps, 1))
        text = ask(f"{rows}\nNumber of the step to change, or Enter when done: ").strip()
        if not text:
            return tuple(steps)
        if text.isdecimal() and 1 <= int(text) <= len(steps):
            _change(ask, steps, int(text) - 1)


def _change(ask: Callable[[str], str], steps: list[PlanStep], index: int) -> None:
    """Change or remove one step; Enter leaves it as it is."""
    problem, name = "", reveal(steps[index].call.name)
    while text := ask(f"{problem}Arguments of {name} as JSON, or remove: ").strip():
        if text.lower() != "remove":
            try:
                steps[index] = _with_arguments(steps[index], text)
            except (ValueError, RecursionError) as error:
                problem = f"That is not it: {error}\n"
                continue
        elif len(steps) == 1:
            problem = "A plan has at least one step; answer n to deny it.\n"
            continue
        else:
            del steps[index]
        return


def _with_arguments(step: PlanStep, text: str) -> PlanStep:
    """Return the step with other arguments; raises ValueError for anything but an object."""
    arguments: Any = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError('arguments are a JSON object, such as {"path": "data.csv"}')
    changed = {"arguments": arguments, "parse_error": None}
    call = ToolCall.model_validate(step.call.to_dict() | changed)
    return step.model_copy(update={"call": call})


def _row(step: PlanStep) -> str:
    arguments = json.dumps(step.call.arguments, ensure_ascii=False)
    return reveal(f"{step.call.name} {arguments}")
