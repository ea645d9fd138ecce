"""Runs the explorer against a real namespace with a few tiny tools."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ipyagent import explorer
from ipyagent.explorer import ExplorerReply
from ipyagent.kernel.describe import describe
from ipyagent.kernel.namespace import digest
from ipyagent.schema import Message, Role, ToolResultContent
from ipyagent.tools.tables.inspect import MOST_BYTES, describe_table
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace

TOOLS = ["list_files", "read_file", "list_variables", "inspect_variable", "run_python"]


def offered(*names: str) -> set[str]:
    """The tools that are on offer."""
    return set(names)


def reply(messages: Iterable[dict[str, Any]], tools: Collection[str]) -> ExplorerReply:
    """The reply to a conversation in OpenAI's format; results that begin with `Error` failed."""
    return explorer.reply(map(_message, messages), tools)


def _message(data: dict[str, Any]) -> Message:
    if data["role"] != "tool":
        return Message.from_dict({**data, "synthetic": data["role"] == "user"})
    failed, text = data["content"].startswith("Error"), data["content"].removeprefix("Error: ")
    result = ToolResultContent(tool_use_id=data["tool_call_id"], content=text, is_error=failed)
    return Message(role=Role.USER, content=(result,))


class Kernel:
    """A namespace, a folder, and the tools on them."""

    def __init__(self, root: Path, **variables: Any) -> None:
        self.root, self.namespace = root, dict(variables)
        self.code: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def files(self) -> list[str]:
        paths = sorted(p for p in self.root.rglob("*") if p.is_file())
        return [str(p.relative_to(self.root)) for p in paths]

    def variables(self) -> str:
        return digest({k: v for k, v in self.namespace.items() if not k.startswith("_")})

    def context(self) -> str:
        files = "\n".join(f"- {each} (1.0 kB)" for each in self.files())
        parts = [f"Variables:\n{self.variables()}", f"Files:\n{files}", *self.tables()]
        return "<context>\n" + "\n".join(parts) + "\n</context>"

    def tables(self) -> list[str]:
        """The section of descriptions, of all files that can be described."""
        described = []
        for path in self.files():
            with contextlib.suppress(NotTableError):
                described.append(describe_table(Workspace(self.root), path, MOST_BYTES))
        return ["Tables:\n" + "\n\n".join(described)] if described else []

    def run(self, tool: str, arguments: dict[str, Any]) -> str:
        self.calls.append((tool, arguments))
        match tool:
            case "list_files":
                return "\n".join(self.files()) or "(empty)"
            case "read_file":
                lines = (self.root / arguments["path"]).read_text().splitlines()
                return "\n".join(lines[: arguments.get("limit")])
            case "list_variables":
                return self.variables()
            case "inspect_variable":
                name = arguments["name"]
                return describe(name, self.namespace[name], detail=True)
        return self.run_python(arguments["code"])

    def run_python(self, code: str) -> str:
        self.code.append(code)
        out = io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out):
            try:
                exec(compile(code, "<cell>", "exec"), self.namespace)
            except Exception as error:  # as the tool does: a failure is a result
                return f"Error: {type(error).__name__}: {error}"
        return out.getvalue()

    def ask(self, prompt: str, tools: list[str] = TOOLS, *, context: bool = True) -> ExplorerReply:
        """The final reply to a prompt, after all the calls it takes."""
        text = f"{prompt}\n{self.context()}" if context else prompt
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "…"},
            {"role": "user", "content": text},
        ]
        for number in range(10):
            said = reply(messages, offered(*tools))
            if not said.calls:
                return said
            ((tool, arguments),) = said.calls
            function = {"name": tool, "arguments": json.dumps(arguments)}
            call = {"id": f"c{number}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            output = self.run(tool, arguments)
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})
        raise AssertionError("the explorer doesn't come to an end")
