"""Python scripts that the agent saves, and shell commands, run in processes of their own."""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from ipyagent.digests import digest_text
from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import human_size, plural, spell
from ipyagent.schema import Preview, PythonScript, ToolResult, now
from ipyagent.tools import sandbox as processes
from ipyagent.tools.base import Tool, tool
from ipyagent.tools.file_change import encode_text
from ipyagent.tools.sandbox import MAX_HEAD, MAX_PRINTED, BoundedOutput, Sandbox, SandboxResult
from ipyagent.tools.sandbox.supervisor import MAX_TASKS
from ipyagent.tools.static_analysis import Effects, analyze_command
from ipyagent.tools.static_analysis.code import analyze_code
from ipyagent.tools.workspace import Workspace

UNSANDBOXED = "not sandboxed"

_MAX_WHOLE = 1_000_000  # bytes that are given as they are; what cuts results saves them as well
_EXCERPT_CHARS = (
    12_000  # characters, in as many lines, of the beginning and of the end of more than that
)
_EXCERPT_LINES = 400


def resolve_timeout(timeout: float | None, default: float, most: float) -> float:
    """Return the time limit of a call; raises InvalidArgumentsError if it is too long."""
    if timeout is not None and timeout > most:
        raise InvalidArgumentsError(f"timeout is {timeout:g} s; at most {most:g} s are allowed")
    return min(default, most) if timeout is None else timeout


def build_result(ran: SandboxResult, timeout: float, save: Callable[[str], str]) -> ToolResult:
    """Return the result of a command that had `timeout` seconds; `save` saves a long text."""
    label = "" if ran.sandboxed else f"({UNSANDBOXED})"
    problem = _describe_failure(ran, timeout)
    printed = _format_printed(ran.outcome.output, save)
    notes = [f"({note})" for note in ran.notes]
    parts = (label, printed or "(no output)", *notes, problem)
    output = "\n".join(part.removesuffix("\n") for part in parts if part)
    return ToolResult(success=not problem, output=output, error=problem or None)


def _describe_failure(ran: SandboxResult, timeout: float) -> str:
    """Return why it failed; empty if it succeeded."""
    if ran.outcome.code is None:
        return "its exit status is unknown; processes may still be running"
    match ran.outcome.stop_reason:
        case "time":
            return f"ended after {timeout:g} s, its time limit; name a longer timeout, or do less"
        case "tasks":
            return f"ended because it had more than {MAX_TASKS:,} processes and threads"
        case "memory":
            return (
                f"ended because it used more than {human_size(processes.MAX_MEMORY)} of memory, "
                "all its processes together; work in parts, or start fewer processes"
            )
        case "printed":
            return f"ended because it printed more than {human_size(MAX_PRINTED)}"
    code = ran.outcome.code
    if code < 0:
        return f"ended by {_describe_signal(-code)}"
    # A shell and bubblewrap report so that their command was ended by a signal.
    by_signal = _describe_signal(code - 128)
    after = f", as after {by_signal}" if by_signal else ""
    return f"exit code {code}{after}" if code else ""


def _describe_signal(number: int) -> str:
    """Return a signal's name and likely cause; empty if it is not a signal."""
    if number not in set(signal.Signals):
        return ""
    memory = " (there may not be enough memory)" if number == signal.SIGKILL else ""
    return signal.Signals(number).name + memory


def _format_printed(output: BoundedOutput, save: Callable[[str], str]) -> str:
    """Return all of the output, or its beginning and end and where the rest is."""
    if output.size <= _MAX_WHOLE:
        return output.head() + output.tail()
    kept = output.head()
    try:
        part = f"the first {human_size(MAX_HEAD)}" if output.size > MAX_HEAD else "all"
        where = f"read_file {save(kept)} has {part} of it"
    except (AgentError, OSError):
        where = "it could not be saved"
    head = "\n".join(kept[:_EXCERPT_CHARS].split("\n")[:_EXCERPT_LINES])
    tail = "\n".join(
        (kept[-_EXCERPT_CHARS:] + output.tail())[-_EXCERPT_CHARS:].split("\n")[-_EXCERPT_LINES:]
    )
    return f"({human_size(output.size)} of output; {where})\n{head}\n…\n{tail}"


Action = Literal["create", "edit", "run", "delete", "list"]

_FOLDER = "scripts"
_SUBJECT = "script code"
_ID = re.compile(r"py_[0-9a-f]{6}")
# What each action needs; `run` takes one of both.
_REQUIRED_ARGUMENTS: dict[Action, tuple[str, ...]] = {
    "create": ("content",),
    "edit": ("file_id", "content"),
    "delete": ("file_id",),
    "list": (),
}


class ScriptStore:
    """The scripts in `.ipyagent/scripts/`: the code, and its record beside it.

    A record that is lost or damaged is recreated from the code.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def load_all(self) -> list[PythonScript]:
        """Return all scripts, oldest first."""
        state = self._workspace.state_folder()
        if state.stat(_FOLDER) is None:
            return []
        ids = [entry.path.removesuffix(".py") for entry in state.scan(_FOLDER)]
        return sorted(map(self.get, filter(_ID.fullmatch, ids)), key=lambda each: each.created_at)

    def get(self, file_id: str) -> PythonScript:
        """Return one script; raises AgentError with the names of those that exist."""
        state = self._workspace.state_folder()
        status = state.stat(f"{_FOLDER}/{file_id}.py") if _ID.fullmatch(file_id) else None
        if status is None:
            known = ", ".join(each.file_id for each in self.load_all()) or "none"
            raise AgentError(f"there is no script {spell(file_id)!r}; available: {known}")
        code = state.read_bytes(f"{_FOLDER}/{file_id}.py").decode("utf-8", "replace")
        try:
            record = PythonScript.model_validate_json(state.read_bytes(f"{_FOLDER}/{file_id}.json"))
        except (AgentError, ValidationError):
            made = datetime.fromtimestamp(status.st_mtime, UTC)
            return self._new_script(file_id, code, made)
        return record.model_copy(update={"content": code, **self._location_fields(file_id)})

    def create(self, content: str) -> PythonScript:
        """Save a new script."""
        script = self._new_script(f"py_{secrets.token_hex(3)}", content, now())
        self._write_script(script, content)
        return script

    def edit(self, file_id: str, content: str) -> PythonScript:
        """Replace the code of a script."""
        script = self.get(file_id).model_copy(update={"content": content})
        self._write_script(script, content)
        return script

    def delete(self, file_id: str) -> None:
        """Delete a script."""
        self.get(file_id)
        state = self._workspace.state_folder()
        for name in (f"{_FOLDER}/{file_id}.json", f"{_FOLDER}/{file_id}.py"):
            if state.stat(name):
                state.delete(name)

    def begin_run(self, file_id: str, digest: str | None) -> PythonScript:
        """Count a run of a script; raises AgentError if its code does not have `digest`."""
        self.get(file_id)
        with self._workspace.state_folder().lock(f"{_FOLDER}/lock"):
            script = self.get(file_id)
            if digest not in (None, digest_text(script.content)):
                raise AgentError(f"{file_id} has changed since it was shown; nothing was run")
            script = script.model_copy(
                update={"last_run_at": now(), "run_count": script.run_count + 1}
            )
            self._write_record(script)
            return script

    def _new_script(self, file_id: str, content: str, created_at: datetime) -> PythonScript:
        return PythonScript(
            content=content, created_at=created_at, **self._location_fields(file_id)
        )

    def _location_fields(self, file_id: str) -> JsonDict:
        # Not as it was recorded: the workspace may have been moved.
        path = self._workspace.state_folder().root / _FOLDER / f"{file_id}.py"
        return {"file_id": file_id, "file_path": str(path)}

    def _write_script(self, script: PythonScript, content: str) -> None:
        data = encode_text(content)
        self._workspace.state_folder().write_atomic(f"{_FOLDER}/{script.file_id}.py", data)
        self._write_record(script)

    def _write_record(self, script: PythonScript) -> None:
        data = script.model_copy(update={"content": ""}).model_dump_json().encode()
        self._workspace.state_folder().write_atomic(f"{_FOLDER}/{script.file_id}.json", data)


class ScriptRunner:
    """The tool that saves scripts and runs them in the sandbox.

    `save` saves a long output and returns its path. Previewed code is remembered, so that what runs
    is what was approved.
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox,
        *,
        save: Callable[[str], str],
        timeout: float,
        max_timeout: float,
    ) -> None:
        self._scripts = ScriptStore(workspace)
        self._sandbox = sandbox
        self._save = save
        self._timeout, self._max_timeout = timeout, max_timeout
        self.previewed_digests: dict[str, str] = {}
        """The digests of the scripts that were previewed in this run."""

    def as_tool(self) -> Tool:
        """Return `python_script`."""
        return tool(
            sensitive=True,
            preview=self._preview_script,
            validate=self._check_call,
            command="content",
            refuse_controls=True,
            effects=_script_effects,
            reaches_out=lambda: not self._sandbox.available,
            always_asks=self._always_asks,
            source=lambda action, **_: "the output of a script" if action == "run" else None,
        )(self.python_script)

    async def python_script(
        self,
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
        most = self._check_call(action, file_id, content, timeout)
        if action != "run":
            return await asyncio.to_thread(
                _manage_script, self._scripts, action, file_id or "", content or ""
            )
        if content is not None:
            file_id = (await asyncio.to_thread(self._scripts.create, content)).file_id
        return await self._run_script(file_id or "", most)

    async def _run_script(self, file_id: str, most: float) -> ToolResult:
        script = await asyncio.to_thread(
            self._scripts.begin_run, file_id, self.previewed_digests.get(file_id)
        )
        ran = await self._sandbox.run(
            [sys.executable, script.file_path],
            seconds=most,
            readable_state=[f"{_FOLDER}/{script.file_id}.py"],
        )
        result = build_result(ran, most, self._save)
        output = f"{script.file_id}, run {script.run_count}:\n{result.output}"
        return result.model_copy(update={"output": output, "value": script})

    def _preview_script(
        self, action: Action, file_id: str | None, content: str | None, timeout: float | None
    ) -> Preview:
        self._check_call(action, file_id, content, timeout)
        if action in ("delete", "list"):
            return Preview(kind="arguments", text=f"{action} {file_id or 'the scripts'}")
        if content is None:
            content = self._scripts.get(file_id or "").content
            self.previewed_digests[file_id or ""] = digest_text(content)
        return Preview(kind="code", language="python", text=content)

    def _check_call(
        self, action: Action, file_id: str | None, content: str | None, timeout: float | None
    ) -> float:
        """Return the time limit of the call; raises InvalidArgumentsError for invalid arguments."""
        has = {k for k, v in {"file_id": file_id, "content": content}.items() if v is not None}
        if action == "run":
            fits, needs = len(has) == 1, "either file_id or content"
        else:
            wanted = _REQUIRED_ARGUMENTS[action]
            fits, needs = has == {*wanted}, " and ".join(wanted) or "neither"
        if not fits:
            raise InvalidArgumentsError(f"{action} takes {needs} of file_id and content")
        return resolve_timeout(timeout, self._timeout, self._max_timeout)

    def _always_asks(self, action: Action, **_: object) -> str | None:
        why = self._sandbox.unavailable_reason
        return f"{UNSANDBOXED}: {why}" if action == "run" and why else None


def _script_effects(preview: Preview) -> Effects:
    """Return the effects of a script; listing or deleting one has none."""
    if preview.kind != "code":
        return Effects(
            {} if preview.text.startswith("list") else {"deletes scripts": ""}, subject=_SUBJECT
        )
    return analyze_code(preview.text, {}, _SUBJECT)


def _manage_script(scripts: ScriptStore, action: Action, file_id: str, content: str) -> ToolResult:
    match action:
        case "create":
            script = scripts.create(content)
            return ToolResult(
                output=f"created {script.file_id}, {_format_line_count(script)}", value=script
            )
        case "edit":
            script = scripts.edit(file_id, content)
            return ToolResult(
                output=f"edited {file_id}, {_format_line_count(script)}", value=script
            )
        case "delete":
            scripts.delete(file_id)
            return ToolResult(output=f"deleted {file_id}")
    found = scripts.load_all()
    lines = [
        f"{each.file_id}: {_format_line_count(each)}, {plural(each.run_count, 'run')}"
        for each in found
    ]
    return ToolResult(output="\n".join(lines) or "There are no scripts.", value=found)


def _format_line_count(script: PythonScript) -> str:
    return plural(len(script.content.splitlines()), "line")


def shell_tools(
    sandbox: Sandbox, *, save: Callable[[str], str], timeout: float, max_timeout: float
) -> list[Tool]:
    """Return `run_shell`. `save` saves a long output and returns its path."""

    def time_limit(given: float | None) -> float:
        return resolve_timeout(given, timeout, max_timeout)

    def preview_command(command: str, timeout: float | None) -> Preview:
        time_limit(timeout)
        return Preview(kind="code", language="bash", text=command)

    @tool(
        sensitive=True,
        preview=preview_command,
        validate=lambda command, timeout: time_limit(timeout),
        command="command",
        effects=lambda preview: analyze_command(preview.text),
        reaches_out=lambda: not sandbox.available,
        always_asks=lambda **_: (
            sandbox.unavailable_reason and f"{UNSANDBOXED}: {sandbox.unavailable_reason}"
        ),
        source=lambda **_: "the output of a command",
    )
    async def run_shell(
        command: str,
        timeout: Annotated[float | None, Field(gt=0)] = None,  # noqa: ASYNC109
    ) -> ToolResult:
        """Run a command with /bin/sh in the workspace; returns what it printed.

        `timeout` is in seconds. There is no input, and background processes end with the command.
        In the sandbox there is no network, secret files cannot be read, and files that are
        executed or loaded automatically later cannot be changed.
        """
        most = time_limit(timeout)
        ran = await sandbox.run(["/bin/sh", "-c", command], seconds=most)
        return build_result(ran, most, save)

    return [run_shell]
