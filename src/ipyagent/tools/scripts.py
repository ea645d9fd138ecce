"""Python scripts that the agent keeps, and runs in processes of their own."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Preview, PythonScript, ToolResult
from ipyagent.schema.base import now
from ipyagent.tools.base import Tool, tool
from ipyagent.tools.names import shown
from ipyagent.tools.reach import Reach, read_code
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.sandbox.told import UNBOXED, result_of, seconds
from ipyagent.tools.workspace import Workspace

Action = Literal["create", "edit", "run", "delete", "list"]

_FOLDER = "scripts"
_SUBJECT = "script code"
_ID = re.compile(r"py_[0-9a-f]{6}")
# What each action needs; `run` takes one of both.
_NEEDS: dict[Action, set[str]] = {
    "create": {"content"},
    "edit": {"file_id", "content"},
    "delete": {"file_id"},
    "list": set(),
}


class Scripts:
    """The scripts in `.ipyagent/scripts/`: the code as it is, and its record beside it.

    A record that is lost or damaged is made anew from the code.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def all(self) -> list[PythonScript]:
        """All of them, the oldest first."""
        state = self._workspace.state()
        if state.stat(_FOLDER) is None:
            return []
        ids = [entry.path.removesuffix(".py") for entry in state.scan(_FOLDER)]
        return sorted(map(self.get, filter(_ID.fullmatch, ids)), key=lambda each: each.created_at)

    def get(self, file_id: str) -> PythonScript:
        """One of them; raises AgentError naming those there are."""
        state = self._workspace.state()
        status = state.stat(f"{_FOLDER}/{file_id}.py") if _ID.fullmatch(file_id) else None
        if status is None:
            known = ", ".join(each.file_id for each in self.all()) or "none"
            raise AgentError(f"there is no script {shown(file_id)!r}; available: {known}")
        code = state.read_bytes(f"{_FOLDER}/{file_id}.py").decode("utf-8", "replace")
        try:
            record = PythonScript.model_validate_json(state.read_bytes(f"{_FOLDER}/{file_id}.json"))
        except (AgentError, ValidationError):
            made = datetime.fromtimestamp(status.st_mtime, UTC)
            return self._made(file_id, code, made)
        return record.model_copy(update={"content": code, **self._place(file_id)})

    def create(self, content: str) -> PythonScript:
        """Keep a new script."""
        script = self._made(f"py_{secrets.token_hex(3)}", content, now())
        self._write(script, content)
        return script

    def edit(self, file_id: str, content: str) -> PythonScript:
        """Replace the code of a script."""
        script = self.get(file_id).model_copy(update={"content": content})
        self._write(script, content)
        return script

    def delete(self, file_id: str) -> None:
        """Forget a script."""
        self.get(file_id)
        state = self._workspace.state()
        for name in (f"{_FOLDER}/{file_id}.json", f"{_FOLDER}/{file_id}.py"):
            if state.stat(name):
                state.delete(name)

    def begin_run(self, file_id: str, digest: str | None) -> PythonScript:
        """Count a run of a script; raises AgentError if its code is not that of `digest`."""
        self.get(file_id)
        with self._workspace.state().locked(f"{_FOLDER}/lock"):
            script = self.get(file_id)
            if digest not in (None, digest_of(script.content)):
                raise AgentError(f"{file_id} has changed since it was shown; nothing was run")
            script = script.model_copy(
                update={"last_run_at": now(), "run_count": script.run_count + 1}
            )
            self._write_record(script)
            return script

    def _made(self, file_id: str, content: str, created_at: datetime) -> PythonScript:
        return PythonScript(content=content, created_at=created_at, **self._place(file_id))

    def _place(self, file_id: str) -> JsonDict:
        # Not as it was recorded: the workspace may have been moved.
        path = self._workspace.state().root / _FOLDER / f"{file_id}.py"
        return {"file_id": file_id, "file_path": str(path)}

    def _write(self, script: PythonScript, content: str) -> None:
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentsError(f"content is not valid Unicode: {error.reason}") from None
        self._workspace.state().write_atomic(f"{_FOLDER}/{script.file_id}.py", data)
        self._write_record(script)

    def _write_record(self, script: PythonScript) -> None:
        data = script.model_copy(update={"content": ""}).model_dump_json().encode()
        self._workspace.state().write_atomic(f"{_FOLDER}/{script.file_id}.json", data)


def script_tools(
    workspace: Workspace,
    sandbox: Sandbox,
    *,
    save: Callable[[str], str],
    timeout: float,
    max_timeout: float,
) -> list[Tool]:
    """`python_script`. `save` keeps a long output and returns where."""
    scripts = Scripts(workspace)
    digests: dict[str, str] = {}

    def preview(
        action: Action, file_id: str | None, content: str | None, timeout: float | None
    ) -> Preview:
        check(action, file_id, content, timeout)
        if action in ("delete", "list"):
            return Preview(kind="arguments", text=f"{action} {file_id or 'the scripts'}")
        if content is None:
            content = scripts.get(file_id or "").content
            digests[file_id or ""] = digest_of(content)
        return Preview(kind="code", language="python", text=content)

    def check(
        action: Action, file_id: str | None, content: str | None, given: float | None
    ) -> float:
        """How long the call may take; raises InvalidArgumentsError for arguments that don't fit."""
        has = {k for k, v in {"file_id": file_id, "content": content}.items() if v is not None}
        fits = len(has) == 1 if action == "run" else has == _NEEDS[action]
        if not fits:
            needs = " and ".join(sorted(_NEEDS.get(action, ()), reverse=True)) or "neither"
            needs = "either file_id or content" if action == "run" else needs
            raise InvalidArgumentsError(f"{action} takes {needs} of file_id and content")
        return seconds(given, timeout, max_timeout)

    def always_asks(action: Action, **_: object) -> str | None:
        return f"{UNBOXED}: {sandbox.why}" if action == "run" and sandbox.why else None

    def source(action: Action, **_: object) -> str | None:
        return "the output of a script" if action == "run" else None

    @tool(
        sensitive=True,
        preview=preview,
        validate=lambda action, file_id, content, timeout: check(action, file_id, content, timeout),
        command="content",
        refuse_controls=True,
        reach=_reach,
        reaches_out=not sandbox.available,
        always_asks=always_asks,
        source=source,
    )
    async def python_script(
        action: Action,
        file_id: str | None = None,
        content: str | None = None,
        timeout: Annotated[float | None, Field(gt=0)] = None,  # noqa: ASYNC109
    ) -> ToolResult:
        """Keep Python scripts and run them in the workspace, apart from the notebook's kernel.

        create (content), edit (file_id, content), run (file_id, or content for a new one), delete
        (file_id), list. `timeout` is in seconds. There is no input, and all processes end with the
        script. In the sandbox there is no network, and secret files cannot be read.
        """
        most = check(action, file_id, content, timeout)
        if action != "run":
            return await asyncio.to_thread(_kept, scripts, action, file_id or "", content or "")
        if content is not None:
            file_id = (await asyncio.to_thread(scripts.create, content)).file_id
        script = await asyncio.to_thread(
            scripts.begin_run, file_id or "", digests.get(file_id or "")
        )
        ran = await sandbox.run(
            [sys.executable, script.file_path],
            limit=most,
            shows=[f"{_FOLDER}/{script.file_id}.py"],
        )
        result = result_of(ran, most, save)
        said = f"{script.file_id}, run {script.run_count}:\n{result.output}"
        return result.model_copy(update={"output": said, "value": script})

    return [python_script]


def _reach(preview: Preview) -> Reach:
    """What a script would touch; of one that is only listed or deleted there is nothing to read."""
    if preview.kind != "code":
        return Reach(
            {} if preview.text.startswith("list") else {"deletes scripts": ""}, subject=_SUBJECT
        )
    return read_code(preview.text, {}, _SUBJECT)


def digest_of(content: str) -> str:
    """What tells one code from another."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _kept(scripts: Scripts, action: Action, file_id: str, content: str) -> ToolResult:
    match action:
        case "create":
            script = scripts.create(content)
            return ToolResult(output=f"created {script.file_id}, {_lines(script)}", value=script)
        case "edit":
            script = scripts.edit(file_id, content)
            return ToolResult(output=f"edited {file_id}, {_lines(script)}", value=script)
        case "delete":
            scripts.delete(file_id)
            return ToolResult(output=f"deleted {file_id}")
    found = scripts.all()
    lines = [f"{each.file_id}: {_lines(each)}, {_counted(each.run_count, 'run')}" for each in found]
    return ToolResult(output="\n".join(lines) or "There are no scripts.", value=found)


def _lines(script: PythonScript) -> str:
    return _counted(len(script.content.splitlines()), "line")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
