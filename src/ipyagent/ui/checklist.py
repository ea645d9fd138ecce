"""The checklist of a run in words; `labextension/src/view/todos.ts` says the same."""

from __future__ import annotations

from collections.abc import Sequence

from ipyagent.schema import Todo, TodoStatus, ToolExecution
from ipyagent.schema.small import TODOS, todos_in
from ipyagent.ui.reveal import reveal

_SIGNS = {TodoStatus.PENDING: "☐", TodoStatus.IN_PROGRESS: "▶", TodoStatus.COMPLETED: "☑"}


def lines(todos: Sequence[Todo]) -> list[str]:
    """One line for each task; the one that is being done says so."""
    return [f"{_SIGNS[todo.status]} {reveal(_said(todo))}" for todo in todos]


def summary(execution: ToolExecution) -> str:
    """What a call that writes the checklist comes to, "" for other calls: "1 of 3 done"."""
    todos = todos_in(execution.call.arguments) if execution.call.name == TODOS else ()
    done = sum(todo.status is TodoStatus.COMPLETED for todo in todos)
    return f"{done} of {len(todos)} done" if todos else ""


def _said(todo: Todo) -> str:
    doing = todo.status is TodoStatus.IN_PROGRESS and todo.active_form.strip()
    return doing or todo.content
