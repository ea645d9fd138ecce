"""A plain, deterministic model: it looks where it must, computes, and answers.

It knows how each question is answered, but not what the columns are called: it looks at the table
unless the conversation shows them. In some tasks it writes a name in the wrong case at first, and
looks again unless the error names the right one. So its requests, their bytes and its calls depend
on nothing but the harness.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tables import loading_code
from tasks import Task

from servers.model_server import Reply, Request, answer

CLUMSY = 6
"""Each task of this number writes a name in the wrong case first."""

CODE_TOOLS = ("run_python", "execute_code")


class Policy:
    """Replies to requests about the tasks, whose files are in `folder`."""

    def __init__(self, tasks: Sequence[Task], folder: Path) -> None:
        self._tasks = list(tasks)
        self._columns = {task.table: _read_columns(folder, task.table) for task in tasks}

    def __call__(self, request: Request) -> Reply:
        """Return the reply to a request in OpenAI's format."""
        body = request.body
        messages = [message for message in body["messages"] if message["role"] != "system"]
        task = self._task_of(messages)
        results = [_text(each) for each in messages if each["role"] == "tool"]
        usage = {"prompt_tokens": len(request.raw) // 4, "completion_tokens": 50}
        usage["total_tokens"] = usage["prompt_tokens"] + 50
        if results and (values := _printed_answers(task, results[-1])):
            lines = "\n".join(f"- {name}: {value}" for name, value in values.items())
            return answer(f"The table gives:\n\n{lines}", usage=usage, chunk_size=200)
        tool = _code_tool(body["tools"])
        arguments = {"code": self._next_code(task, messages, results)}
        call = (tool, arguments, f"call_{len(messages)}")
        return answer(calls=[call], usage=usage, chunk_size=200)

    def _task_of(self, messages: Sequence[Mapping[str, Any]]) -> Task:
        asked = "\n".join(_text(each) for each in messages if each["role"] == "user")
        return next(task for task in reversed(self._tasks) if task.question in asked)

    def _next_code(
        self, task: Task, messages: Sequence[Mapping[str, Any]], results: Sequence[str]
    ) -> str:
        text = results[-1] if results else "\n".join(map(_text, messages))
        needed = self._needed(task)
        if not _shows(text, needed):
            return f"import pandas as pd\ntable = {loading_code(task.table)}\n" + LOOK
        if self._is_clumsy(task) and not any("rror" in result for result in results):
            return _misspell(task.code(), needed)
        return task.code()

    def _needed(self, task: Task) -> list[str]:
        code = " ".join(task.expressions.values())
        return [
            name for name in self._columns[task.table] if re.search(rf"\b{re.escape(name)}", code)
        ]

    def _is_clumsy(self, task: Task) -> bool:
        return self._tasks.index(task) % CLUMSY == CLUMSY - 1


LOOK = "print(table.head())\ntable.info()"


def _shows(text: str, columns: Sequence[str]) -> bool:
    return all(name in text for name in columns)


def _misspell(code: str, columns: Sequence[str]) -> str:
    """Return the code with the first column in the wrong case."""
    name = columns[0]
    head, load, rest = code.partition("print(")
    return head + load + re.sub(rf"\b{re.escape(name)}\b", name.swapcase(), rest)


def _printed_answers(task: Task, result: str) -> dict[str, Any]:
    """Return the answers that the task's program printed, if it did."""
    for line in result.splitlines():
        if line.startswith("{"):
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and set(values) == set(task.expressions):
                return values
    return {}


def _code_tool(tools: Sequence[Mapping[str, Any]]) -> str:
    names = [tool["function"]["name"] for tool in tools]
    return next(name for name in CODE_TOOLS if name in names)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _read_columns(folder: Path, table: str) -> list[str]:
    reader = loading_code(table).replace('("', f'("{folder}/')
    return [str(name) for name in eval(reader, {"pd": pd}).columns]
