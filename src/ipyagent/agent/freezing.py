"""A run frozen as plain cells, which need no ipyagent: what succeeded and led to its results.

calls ─▶ code ─▶ backward slice ─▶ imports first, once; code in order; the answer as Markdown
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from ipyagent.numbers import trace_numbers
from ipyagent.plaintext import first_line
from ipyagent.schema import DecidedBy, Run, ToolExecution, ToolResult, ToolStatus, VariableChange
from ipyagent.syntax import parse
from ipyagent.tools.static_analysis.slicing import Code, Slice, keep_completed, slice_code
from ipyagent.values.variables.reach import names_of_loops

_TABLES = {"text/html", "text/plain", "text/markdown", "text/latex"}
_WORD = re.compile(r"[^\W\d]\w*")
_ENCODED = 'encoding="utf-8"'
_RUNS = ("run_python", "run_cell")
_LOOKS = ("list_", "read_", "search_", "inspect_", "find_", "get_", "recall_", "todo_", "ask_user")


@dataclass(frozen=True)
class FrozenCell:
    """A plain cell. `result` is the output that it should have again, if that is known."""

    source: str
    kind: Literal["code", "markdown"] = "code"
    result: ToolResult | None = None
    is_own: bool = False
    """True if it is not of the frozen runs, but of what ran before them."""


@dataclass(frozen=True)
class Frozen:
    """Runs as cells, and the variables and files that they leave; `outcome`: were they tried?"""

    cells: tuple[FrozenCell, ...]
    variables: tuple[VariableChange, ...]
    files: Mapping[str, str | None]
    """The digests of files that tools changed, by their paths."""
    runs: tuple[Run, ...] = ()
    outcome: str = "unverified: `--verify` tries it in a fresh kernel"


@dataclass(frozen=True)
class _Part:
    """The code of a call, or of what ran before without `run`; `remark` stands for no code."""

    code: Code
    run: Run | None = None
    execution: ToolExecution | None = None
    remark: str = ""


def freeze(
    history: Sequence[Run | str], chosen: Collection[str], variables: Mapping[str, object]
) -> Frozen:
    """Freeze chosen runs, with what they need of the history: runs and cells of the user, in order.

    `chosen` are ids. `variables` are those of the kernel: they tell what names stand for.
    """
    parts = [part for each in history for part in _list_parts(each, chosen)]
    results = [part.execution.result for part in parts if part.execution and part.execution.result]
    final = {change.name: change for result in results for change in result.variables}
    files = {change.path: change.after for result in results for change in result.files}
    kept = {name: each for name, each in final.items() if each.change != "deleted"}
    wanted = kept.keys() - set().union(*(names_of_loops(each.code.text) for each in parts))
    slices = slice_code([part.code for part in parts], wanted, variables)
    for run in {part.run.id: part.run for part in parts if part.run}.values():
        own = [n for n, part in enumerate(parts) if part.run is run and part.code.text]
        if own and not any(slices[n].text for n in own):  # the answer is from looks
            for n in [n for n in own if _has_displays(parts[n])] or own[-1:]:
                parts[n] = replace(parts[n], code=replace(parts[n].code, puts_out=True))
            slices = slice_code([part.code for part in parts], wanted, variables)
    made = list(zip(parts, slices, strict=True))
    imports = dict.fromkeys(line for _, each in made for line in each.imports)
    used = {"*", *_WORD.findall(" ".join(each.text for part, each in made if part.run))}
    first = sorted(imports, key=lambda line: not line.startswith("from __future__"))
    cells = list[FrozenCell]()
    for is_own in (False, True):
        lines = [each for each in first if used.isdisjoint(_list_imported(each)) is is_own]
        cells += [FrozenCell("\n".join(lines), is_own=is_own)] if lines else []
    for run, group in groupby(made, lambda each: each[0].run):
        pieces = [*group]
        if run is not None:
            cells += _write_run(run, pieces)
        else:
            cells += (FrozenCell(each.text, is_own=True) for _, each in pieces if each.text)
    left = tuple(each for name, each in kept.items() if name in wanted)
    runs = tuple(each for each in history if isinstance(each, Run) and each.id in chosen)
    return Frozen(tuple(cells), left, files, runs)


def _has_displays(part: _Part) -> bool:
    return bool(part.execution and part.execution.result and part.execution.result.displays)


def _list_imported(line: str) -> Iterator[str]:
    """Yield the names that an import binds."""
    for node in ast.walk(parse(line)):
        if isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]


def _write_run(run: Run, made: Iterable[tuple[_Part, Slice]]) -> Iterator[FrozenCell]:
    """Yield the cells of a run, the first of which begins with its prompt."""
    before = [_comment(f"Prompt: {run.prompt.strip()}")]
    for part, each in made:
        if part.remark:
            before.append(_comment(part.remark))
        elif each.text:
            if each.text.startswith("%%") and before:  # it has to be the first line
                yield FrozenCell("\n".join(before))
                before = []
            source = "\n".join([*before, each.text])
            yield FrozenCell(source, result=_find_result(part, each))
            before = []
    if before:
        yield FrozenCell("\n".join(before))
    if run.output.strip():
        yield FrozenCell(run.output.strip(), "markdown")


def _find_result(part: _Part, made: Slice) -> ToolResult | None:
    """Return the result that kept code should give again; None if nothing shows whether it does."""
    call, result = part.execution, part.execution and part.execution.result
    if not call or not result or call.call.name not in _RUNS or not made.has_output:
        return None
    return result if result.success and not result.truncated else None


def _comment(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def _list_parts(entry: Run | str, chosen: Collection[str]) -> Iterator[_Part]:
    """Yield the parts of a run, or of a cell of the user's."""
    if isinstance(entry, str):
        yield _Part(Code(entry, is_whole=True))
        return
    calls = _list_calls(entry)
    parts = [part for each, cited in calls if (part := _make_part(entry, each, cited))]
    if entry.id in chosen:
        yield from parts or [_Part(Code(""), entry)]
    else:
        yield from (_Part(replace(part.code, puts_out=False)) for part in parts)


def _list_calls(run: Run, *, is_cited: bool = True) -> Iterator[tuple[ToolExecution, bool]]:
    """Yield the calls of a run whose results stay, and whether the answer cites them.

    Where a delegated task is known, its calls are in its place.
    """
    cited = _find_cited(run) if is_cited else set()
    for each in run.executions:
        if not each.result or each.dry_run or each.call.id in run.taken_back:
            continue
        child = each.result.value if each.result.child else None
        if isinstance(child, Run):
            yield from _list_calls(child, is_cited=each.call.id in cited)
        else:
            yield each, each.call.id in cited


def _find_cited(run: Run) -> set[str]:
    """Return the ids of the calls whose results hold the numbers of the answer."""
    _, *texts = run.texts_read  # but the prompt
    formulas = " ; ".join(each.formula for each in run.numbers if each.formula)
    return {each.source for each in (*run.numbers, *trace_numbers(formulas, texts))} - {""}


def _make_part(run: Run, execution: ToolExecution, is_cited: bool) -> _Part | None:
    """Return the part of a call; None if it does not count."""
    result, name = execution.result, execution.call.name
    assert result is not None  # noqa: S101
    if execution.status is not ToolStatus.SUCCESS:
        text = keep_completed(_read_code(execution), result.failed_line)
        return _Part(Code(text), run, execution) if text and name in _RUNS else None
    code = _write_call(execution)
    if code is None:
        is_look = name.startswith(_LOOKS) and not is_cited
        given = ", ".join(f"{key}={value!r:.60}" for key, value in execution.call.arguments.items())
        why = "the answer has numbers of it" if is_cited else "it is not plain Python"
        remark = f"{first_line(f'{name}({given})')} was called here: {why}."
        return None if is_look else _Part(Code(""), run, execution, remark)
    draws = result.images or any(each.data.keys() - _TABLES for each in result.displays)
    looked = execution.decided_by is DecidedBy.REHEARSAL or name == "query"
    return _Part(Code(code, bool(draws or is_cited), looked), run, execution)


def _read_code(execution: ToolExecution) -> str:
    preview = execution.preview
    shown = preview.text if preview and preview.kind == "code" else ""
    return shown or str(execution.call.arguments.get("code", ""))


def _write_call(execution: ToolExecution) -> str | None:
    """Return a call as Python; None if it cannot be written so."""
    given = execution.call.arguments
    path = f"Path({given.get('path')!r})"
    match execution.call.name:
        case "run_python" | "run_cell":
            return _read_code(execution)
        case "query":
            return f"import duckdb\nduckdb.sql({_quote(str(given['sql']))}).df()"
        case "write_file":
            content, result = _quote(str(given["content"])), execution.result
            change = f"{path}.write_text({content}, {_ENCODED})"
            if given.get("mode") == "append":
                change = f'with {path}.open("a", {_ENCODED}) as _file:\n    _file.write({content})'
            if result and result.files and result.files[0].folder:
                change = f"{path}.parent.mkdir(parents=True, exist_ok=True)\n{change}"
        case "edit_file":
            old, new = (_quote(str(given[key])) for key in ("old_string", "new_string"))
            count = "" if given.get("replace_all") else ", 1"
            edited = f"{path}.read_text({_ENCODED}).replace({old}, {new}{count})"
            change = f"{path}.write_text({edited}, {_ENCODED})"
        case "delete_file":
            change = f"{path}.unlink()"
        case _:
            return None
    return f"from pathlib import Path\n{change}"


def _quote(text: str) -> str:
    """Return a text as Python, of several lines in triple quotes."""
    long = f'"""\\\n{text}"""' if "\n" in text else ""
    try:
        return long if long and ast.literal_eval(long) == text else repr(text)
    except (SyntaxError, ValueError):
        return repr(text)
