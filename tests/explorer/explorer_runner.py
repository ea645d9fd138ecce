"""Runs the explorer against a real namespace with a few tiny tools."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipyagent import explorer
from ipyagent.explorer import ExplorerReply
from ipyagent.kernel.namespace import digest
from ipyagent.schema import Message, Role, ToolCall, ToolResultContent
from ipyagent.schema.tables import TableFacts, WorkspaceFacts
from ipyagent.tools.tables import table_ending
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe import describe
from ipyagent.wiring.environment import list_table_facts, name_types, read_file_facts

TOOLS = ["list_files", "read_file", "list_variables", "inspect_variable", "run_python"]


def result(call: ToolCall, text: str, *, is_error: bool = False) -> list[Message]:
    """The messages of a call and its result."""
    found = ToolResultContent(tool_use_id=call.id, content=text, is_error=is_error)
    return [
        Message(role=Role.ASSISTANT, content=(call,)),
        Message(role=Role.USER, content=(found,)),
    ]


def call_of(said: ExplorerReply, number: int = 1) -> ToolCall:
    """The call that a reply makes."""
    ((name, arguments),) = said.calls
    return ToolCall(id=f"c{number}", name=name, arguments=arguments)


class Kernel:
    """A namespace, a folder, and the tools on them."""

    def __init__(self, root: Path, **variables: Any) -> None:
        self.root, self.namespace = root, dict(variables)
        self.code: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: list[Message] = []

    def files(self) -> list[str]:
        paths = sorted(p for p in self.root.rglob("*") if p.is_file())
        return [str(p.relative_to(self.root)) for p in paths]

    def variables(self) -> dict[str, Any]:
        return {k: v for k, v in self.namespace.items() if not k.startswith("_")}

    def facts(self) -> WorkspaceFacts:
        """The facts as the environment collects them, with all files described."""
        workspace, variables = Workspace(self.root), self.variables()
        paths = [path for path in self.files() if table_ending(path)]
        tables: list[TableFacts] = [*list_table_facts(variables)]
        tables += [read_file_facts(workspace, path) for path in paths]
        return WorkspaceFacts(tuple(tables), name_types(variables), tuple(self.files()))

    def run(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The output of a tool, and whether it failed."""
        self.calls.append((tool, arguments))
        match tool:
            case "list_files":
                return "\n".join(self.files()) or "(empty)", False
            case "read_file":
                lines = (self.root / arguments["path"]).read_text().splitlines()
                return "\n".join(lines[: arguments.get("limit")]), False
            case "list_variables":
                return digest(self.variables()), False
            case "inspect_variable":
                name = arguments["name"]
                return describe(name, self.namespace[name], detail=True), False
        return self.run_python(arguments["code"])

    def run_python(self, code: str) -> tuple[str, bool]:
        self.code.append(code)
        out = io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out):
            try:
                exec(compile(code, "<cell>", "exec"), self.namespace)
            except Exception as error:  # as the tool does: a failure is a result
                return f"{type(error).__name__}: {error}", True
        return out.getvalue(), False

    def ask(self, prompt: str, tools: Sequence[str] = TOOLS) -> ExplorerReply:
        """The final reply to a prompt, in the conversation so far."""
        facts = self.facts()
        self.messages.append(Message.of(Role.USER, prompt or " ."))
        said = explorer.reply(self.messages, facts, tools)
        if said.calls:
            call = call_of(said, len(self.messages))
            text, failed = self.run(call.name, call.arguments)
            self.messages += result(call, text, is_error=failed)
            said = explorer.reply(self.messages, facts, tools)
            assert not said.calls, "the explorer makes a second call"
        self.messages.append(Message.of(Role.ASSISTANT, said.text))
        return said
