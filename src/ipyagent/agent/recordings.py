"""A run as the recording that a replay repeats: what is signed, skipped and compared.

An approval is signed with the user's secret, which no workspace holds, over the call, all calls and
results before it in its run, the run, its session and its folder. A recording of somebody else, or
one that was changed, has no valid signature, and its calls are asked about.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

from ipyagent.config.sources import folder_key, read_user_secret
from ipyagent.digests import digest_json
from ipyagent.errors import AgentError, ConfigError
from ipyagent.plaintext import ellipsize, flatten
from ipyagent.redaction import MASK
from ipyagent.schema import (
    DecidedBy,
    Decision,
    FileChange,
    ImageContent,
    PlanStep,
    Run,
    ToolExecution,
    ToolResult,
    ToolStatus,
)
from ipyagent.tools.base import Toolbox
from ipyagent.values.variables.content import PASSING

_LENGTH = 120
"""Characters of a line that a difference names."""
_LISTS = ("list_files", "list_variables", "search_files")
_NOTE = re.compile(r"… .*|\((empty|no matches|not searched: .*)\)|There are no variables.*")
"""A line of a listing that is not an entry."""
_CELLS = ("insert_cell", "edit_cell")
_EDITS = ("write_file", "edit_file", "delete_file", *_CELLS)
_READS = ("read_file", "inspect_file", "read_notebook")
_SERVICES = ("mcp_", "api_", "call_tool", "find_tools")

NOT_REPEATED = "recorded, not repeated"
READ_BEFORE = "recorded, not repeated: {path} is as this run leaves it"
NOTHING_TO_DO = "nothing to do: {path} is as this call leaves it"


@dataclass(frozen=True)
class Signer:
    """Signs and checks approvals in a folder."""

    folder: Path
    within: str = ""
    """The digest of the calls that led to the run, if another run began it."""

    def enter(self, run: Run, step: int) -> Signer:
        """Return the signer of the runs that calls of this step begin; -1: of the last one."""
        message, before = run.steps[step].message, [s.executions for s in run.steps[:step]]
        place = [self._begin(run), *map(_list_covered, chain.from_iterable(before))]
        calls = [(each.name, each.arguments) for each in message.tool_calls] if message else []
        return replace(self, within=digest_json([place, calls]))

    def sign(self, run: Run, execution: ToolExecution) -> str:
        """Return the signature of a call of `run` that a user approved; "" if there is none."""
        ids = {execution.call.id} if _is_by_user(execution) else ()
        return next((made for _, made in self._sign(run, ids)), "")

    def find_valid(self, run: Run) -> set[str]:
        """Return the ids of the calls of `run` that this user approved where they stand."""
        calls = [each for each in run.executions if _is_by_user(each)]
        given = {each.call.id: each.signature.encode(errors="replace") for each in calls}
        made = self._sign(run, given)
        return {each for each, text in made if hmac.compare_digest(text.encode(), given[each])}

    def _sign(self, run: Run, ids: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the ids of calls, if the user's secret can be read, with their signatures."""
        place = self._begin(run)
        with suppress(ConfigError):  # it will be asked about again
            secret = read_user_secret().encode() if ids else b""
            for each in run.executions:
                if each.call.id in ids:
                    code = list(filter(None, [each.code]))
                    call = [each.call.name, each.call.arguments, each.concern, *code]
                    text = digest_json([*place, *call])
                    yield each.call.id, hmac.digest(secret, text.encode(), "sha256").hex()
                place += _list_covered(each)

    def _begin(self, run: Run) -> list[object]:
        """Return what a signature covers beside the calls."""
        within = [self.within, run.prompt] if self.within else []
        asked = run.asked and run.asked.key
        return [*within, folder_key(self.folder), run.id, run.session_id, asked]


def _list_covered(execution: ToolExecution) -> list[object]:
    """Return what the signatures after a call cover of it."""
    call, result = execution.call, execution.result
    kept = [execution.question is not None, bool(result and result.lasting)]
    content = list_content(result) if result else None
    return [call.name, call.arguments, str(execution.status), content] + [kept] * any(kept)


def _is_by_user(execution: ToolExecution) -> bool:
    """Return whether a call ran because a user approved it."""
    if execution.question or execution.status is ToolStatus.DENIED:  # whatever a recording says
        return False
    return execution.decision is Decision.APPROVED or execution.decided_by is DecidedBy.SESSION


def list_content(result: ToolResult) -> list[object]:
    """Return the parts of a result that a replay compares, as JSON."""
    variables = {
        each.name: "deleted" if each.change == "deleted" else each.content
        for each in result.variables
    }
    text = result.output if result.success else result.error
    return [
        result.success,
        text if result.child is None else result.for_model,  # the rest says how it was approved
        [describe_image(each) for each in result.images],
        [sorted(each.data) for each in result.displays],
        variables,
        {each.path: each.after for each in result.files},
    ]


def describe_image(image: ImageContent) -> str:
    """Return type and size of an image."""
    try:
        head = base64.b64decode(image.data[:64], validate=True)
    except (binascii.Error, ValueError):
        head = b""
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        width, height = (int.from_bytes(head[at : at + 4], "big") for at in (16, 20))
        return f"{image.media_type}, {width} × {height}"  # noqa: RUF001
    return image.media_type


_CHANGING = re.compile(
    rf"""(?x) {PASSING}
    | \brun\ [0-9a-f]{{12}},\ call\ \S+
    | \.ipyagent/outputs/\S+
    | \b\d+(?:[.,]\d+)*\+?\s?(?:[kKMGT]i?)?B(?:ytes)?\b | \b\d+(?:[.,]\d+)*\s(?:bytes|KB|MB|GB)\b
    | \b\d+(?:[.,]\d+)?\s?(?:ns|[µμu]s|ms|s|sec|secs|seconds?|min|minutes?)\b
    | \b\d{{1,3}}:\d\d(?::\d\d)?(?:\.\d+)?(?=\s?(?:<|elapsed|remaining))
    | \bTime:\s+\d\d:\d\d:\d\d\b | \bDate:\s+[A-Z][a-z]{{2}},\ \d\d\ [A-Z][a-z]{{2}}\ \d{{4}}\b
    """
)
"""Addresses, temporary paths, ids, memory sizes and durations: they differ each time.

So do the time and date in the summaries of statsmodels.
"""
_PLAIN = r"""(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|-?\d[\w.+-]*|None)"""
_ITEM = rf"(?:{_PLAIN}|\({_PLAIN}(?:, {_PLAIN})*,?\))"
_SET = re.compile(rf"\{{{_ITEM}(?:, {_ITEM})+\}}")
"""A printed set: its order differs in each process."""
_NUMBER = re.compile(r"(?<![\w#.])-?\d[\d,_]*(?:\.\d*)?(?:[eE][-+]?\d+)?")


def is_same_text(old: str, new: str) -> bool:
    """Return whether texts are equal but for what differs each time, numbers within 1e-9."""
    if old == new:
        return True
    old, new = map(_normalize, (old, new))
    if _NUMBER.split(old) != _NUMBER.split(new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(one == other or _is_close(one, other) for one, other in pairs)


def _normalize(text: str) -> str:
    return _CHANGING.sub("…", _SET.sub(_sort_items, text))


def _sort_items(items: re.Match[str]) -> str:
    return ", ".join(sorted(re.findall(_ITEM, items[0])))


def _is_close(one: str, other: str) -> bool:
    if not all(re.search("[.eE]", text) for text in (one, other)):
        return False
    try:
        numbers = [float(text.replace(",", "").replace("_", "")) for text in (one, other)]
    except ValueError:
        return False
    digits = max(sum(map(str.isdigit, text.lstrip("-0."))) for text in (one, other))
    # A computed number has all of its digits; of fewer, the last one may differ.
    near = 1e-9 if digits >= sys.float_info.dig else min(1e-9, 2 * 10.0 ** (1 - digits))
    return all(map(math.isfinite, numbers)) and math.isclose(*numbers, rel_tol=near)


_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def list_added(old: ToolExecution, new: ToolExecution) -> list[str]:
    """Return what a listing has gained; nothing if it has lost anything, or is no listing."""
    if old.call.name not in _LISTS or not (old.result and new.result and new.result.success):
        return []
    before, after = (
        {_normalize(line): line for line in output.splitlines() if not _NOTE.fullmatch(line)}
        for output in (old.result.output, new.result.output)
    )
    return [] if before.keys() - after else [after[each] for each in after if each not in before]


def list_unchanged(old: ToolExecution, new: ToolExecution) -> set[str]:
    """Return the variables that a call had changed, and has not when it was repeated."""
    before, after = (each.result.variables if each.result else () for each in (old, new))
    names = {each.name for each in before if each.content or each.change == "deleted"}
    return names - {each.name for each in after}


def find_difference(
    old: ToolExecution, new: ToolExecution, unchanged: Mapping[str, str] | None = None
) -> str | None:
    """Return what is different in the result of a repeated call; None if nothing is.

    `unchanged` are the contents of variables that it has not changed, and may be as it leaves them.
    """
    if old.result is None or new.result is None or old.status is not new.status:
        error = new.result.error if new.result and new.result.error else ""
        error = "; ".join(filter(None, (new.concern, error)))
        return f"it was {old.status}, and is {new.status}" + (f": {_cite(error)}" if error else "")
    before, after = list_content(old.result), list_content(new.result)
    return (
        compare_outputs(before, after)
        or compare_named(before[4], after[4], unchanged)
        or compare_named(before[5], after[5])
    )


def compare_outputs(before: Sequence[object], after: Sequence[object]) -> str | None:
    """Return what is different in the text, figures and displays of a result, by its content."""
    texts = [str(before[1]), str(after[1])]
    if not is_same_text(*texts):
        return _compare_lines(*texts)
    names = ("the figures", "the displays")
    for name, one, other in zip(names, before[2:4], after[2:4], strict=True):
        if one != other:
            return f"{name}: {_cite(str(one))} → {_cite(str(other))}"
    return None


def _compare_lines(old: str, new: str) -> str:
    """Return the first line that differs, if possible in more than its spaces."""
    pairs = zip_longest(old.splitlines(), new.splitlines(), fillvalue="")
    other = [each for each in pairs if not is_same_text(*each)] or [(old, new)]
    cited = [[_cite(line) or "(nothing)" for line in each] for each in other]
    return " → ".join(next((each for each in cited if each[0] != each[1]), cited[0]))


def compare_named(
    old: object, new: object, unchanged: Mapping[str, str] | None = None
) -> str | None:
    """Return the first variable or file that differs."""
    assert isinstance(old, dict)  # noqa: S101
    assert isinstance(new, dict)  # noqa: S101
    new = {**(unchanged or {}), **new}
    for name in dict.fromkeys([*old, *new]):
        one, other = (str(each.get(name) or "(not changed)") for each in (old, new))
        if not is_same_text(one, other):
            shown = (re.sub(r"( · )?#\w+.*", "", text) for text in (one, other))
            first, second = (_cite(_DIGEST.sub("a file", text)) for text in shown)
            change = f": {first} → {second}" if first != second else " has another content"
            return f"{_cite(name)}{change}"
    return None


def _cite(text: str) -> str:
    return ellipsize(flatten(text), _LENGTH)


@dataclass(frozen=True)
class Recording:
    """A run to repeat, and how."""

    run: Run
    signer: Signer
    repeats_services: bool = False
    digest_of: Callable[[str], str | None] = lambda path: None
    """Returns the digest of a file of the workspace, as it is now."""
    read_variables: Callable[[Iterable[str]], dict[str, str]] = lambda names: {}
    """Returns the contents of variables, as they are now; on the main thread."""
    root: Recording | None = None
    """The recording in which a call began this run."""
    origin: str = ""
    """The source that it was read from, if that is not this workspace's own record."""
    approved: dict[str, tuple[PlanStep, DecidedBy]] = field(default_factory=dict)
    """The calls that the user approved for this replay, as they were shown, and where; by id."""

    def find_child(self, run_id: str) -> Recording | None:
        """Return the recording of a run that a call of this one began, if it is known."""
        steps = {e.child_id: n for n, s in enumerate(self.run.steps) for e in s.executions}
        for child in self.run.children:
            if child.id == run_id and run_id in steps and child.parent_id == self.run.id:
                signer = self.signer.enter(self.run, steps[run_id])
                return replace(self, run=child, signer=signer, root=self.root or self)
        return None

    def reason_to_skip(self, execution: ToolExecution, toolbox: Toolbox) -> str | None:
        """Return why a call is not run again, and its recorded result stands; None if it is."""
        status, result = execution.status, execution.result
        if status is ToolStatus.DENIED or execution.question is not None or result is None:
            return execution.reason or NOT_REPEATED
        if status is not ToolStatus.SUCCESS and not execution.has_changes:
            return NOT_REPEATED
        files = _list_edited(execution)
        if files and {self.digest_of(each.path) for each in files} <= self._list_left(execution):
            return NOTHING_TO_DO.format(path=", ".join(each.path for each in files))
        if execution.call.name in _CELLS and not files:
            return NOT_REPEATED  # an open notebook has it, and a number may mean another cell now
        path = execution.call.arguments.get("path")
        if execution.call.name in _READS and path and self._is_left(execution, str(path)):
            return READ_BEFORE.format(path=path)
        if not self.repeats_services and _leads_outside(execution.call.name, toolbox):
            return NOT_REPEATED
        return None

    def find_changed_file(self, execution: ToolExecution, beside: Iterable[ToolExecution]) -> str:
        """Return a file that a call edits and that is not as it was then; "" if there is none.

        `beside` are the calls of its step, itself among them: others may not have run yet. What
        writes a whole file may do so again where nothing is lost: what calls of this run left.
        """
        files = _list_edited(execution)
        known = {(each.path, each.before) for call in beside for each in _list_edited(call)}
        if _replaces_file(execution):
            known |= {(each.path, None) for each in files}
            for _, call in (self.root or self)._calls:
                changes = call.result.files if call.result else ()
                known |= {
                    (each.path, then) for each in changes for then in (each.before, each.after)
                }
        now = [(each.path, self.digest_of(each.path)) for each in files]
        return next((each[0] for each in now if each not in known), "")

    def _is_left(self, execution: ToolExecution, path: str) -> bool:
        """Return whether a file is as the calls after this one leave it, and not as it was."""
        later = [each for each in self._list_later(execution) if each.path == path]
        now = self.digest_of(path) if later else None
        return bool(later) and now != later[0].before and now in {each.after for each in later}

    def _list_later(self, execution: ToolExecution) -> list[FileChange]:
        """Return the edits by a call and those after it, in order."""
        calls = [each for _, each in (self.root or self)._calls]
        return [e for each in calls[calls.index(execution) :] for e in _list_edited(each)]

    def _list_left(self, execution: ToolExecution) -> set[str | None]:
        """Return the digests of files as a call leaves them, or as later edits leave them."""
        files = list(_list_edited(execution))
        if not _replaces_file(execution):
            paths = {each.path for each in files}
            files += [each for each in self._list_later(execution) if each.path in paths]
        return {each.after for each in files}

    def is_approved(self, execution: ToolExecution, *, after_difference: bool = False) -> bool:
        """Return whether the user approved a call, for this replay or when it was recorded.

        What was approved when it was recorded followed the results that there were.
        """
        if execution.call.id in self.approved:
            return True
        return not after_difference and execution.call.id in self._valid

    @cached_property
    def _valid(self) -> set[str]:
        return self.signer.find_valid(self.run)

    def list_repeated(self, toolbox: Toolbox) -> list[tuple[Recording, ToolExecution]]:
        """Return the calls that are run again, in order, also those of runs that calls began.

        Each comes with its recording. Raises AgentError if one is hidden, or if two have one id,
        by which approvals are found.
        """
        calls = self._calls
        if len({each.call.id for _, each in calls}) < len(calls):
            raise AgentError("two of its calls have the same id")
        calls = [pair for pair in calls if not pair[0].reason_to_skip(pair[1], toolbox)]
        for _, each in calls:
            if MASK in json.dumps(each.call.arguments, ensure_ascii=False):
                raise AgentError(f"a secret in the arguments of {each.call.name} was not saved")
        return calls

    @cached_property
    def _calls(self) -> list[tuple[Recording, ToolExecution]]:
        """All calls in order, each with its recording, also those of runs that calls began."""
        calls = list[tuple[Recording, ToolExecution]]()
        for each in self.run.executions:
            calls.append((self, each))
            if child := self.find_child(each.child_id):
                calls += child._calls
        return calls


def reads_file(execution: ToolExecution) -> bool:
    """Return whether a file is looked at to decide whether a call is repeated."""
    return bool(_list_edited(execution)) or execution.call.name in _READS


def _list_edited(execution: ToolExecution) -> tuple[FileChange, ...]:
    is_edit = execution.result and execution.call.name in _EDITS
    return execution.result.files if execution.result and is_edit else ()


def _replaces_file(execution: ToolExecution) -> bool:
    """Return whether a call writes a whole file, whatever was there."""
    call = execution.call
    return call.name == "write_file" and call.arguments.get("mode") != "append"


def _leads_outside(name: str, toolbox: Toolbox) -> bool:
    """Return whether a call goes to a service, or runs a command that could."""
    if name.startswith(_SERVICES):
        return True
    tool = toolbox.get(name) if name in toolbox else None
    # What can or cannot reach out by a sandbox is a command.
    return tool is not None and callable(tool.reaches_out) and tool.can_reach_out()
