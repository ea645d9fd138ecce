"""The arguments and the result of a call as they are drawn, and both in one line.

Arguments with secret names are masked in saved notebooks and in views. If the user decides about a
call they see all of it: they approve the text on the screen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ipyagent import schema
from ipyagent.agent.tool_context import CHARS, LINES
from ipyagent.kernel.displays import SHOWN
from ipyagent.kernel.outputs import CHANNEL_MARKS
from ipyagent.plaintext import plural, strip_escapes
from ipyagent.redaction import mask_arguments
from ipyagent.ui import transcript
from ipyagent.ui.reveal import LINE, first_line, reveal, shorten

SUMMARY = 200
"""Characters of arguments, output or a goal in one line."""

_WIDE = 80
"""Longer JSON is set in several lines."""

_IN_DIFF = {
    "edit_file": {"old_string", "new_string"},
    "write_file": {"content"},
    "edit_cell": {"source"},
}
"""Arguments that a diff shows already."""
_CELL, _WITH_IDS = {"cell", "index"}, {"insert_cell", "read_notebook"}
_ID = re.compile(r"(?m)(^#\d+ \w+| it was not run) \(?id=[^\s)]+\)?")
_MEANINGS = {("run_python", "keep", "true"): " · what it makes is to be kept in your kernel"}
"""Words for an argument whose name says little to whoever decides."""


def in_order(call: schema.ToolCall) -> list[tuple[str, object]]:
    """Return the arguments, the path first: models send them in any order."""
    return sorted(call.arguments.items(), key=lambda each: each[0] != "path")


def summarize_arguments(call: schema.ToolCall) -> str:
    """Return the arguments in one line: the first bare, the others named."""
    named = enumerate(in_order(call))
    parts = [_in_line(v) if i == 0 else f"{k}={_in_line(v)}" for i, (k, v) in named]
    return shorten(", ".join(parts), SUMMARY)


def name_cell(execution: schema.ToolExecution, call: schema.ToolCall) -> schema.ToolCall:
    """Return the call with the name of the cell that it is about in place of an id or index."""
    if execution.preview is None or not (place := execution.preview.place):
        return call
    named = dict.fromkeys(_CELL & call.arguments.keys(), place)
    return call.model_copy(update={"arguments": call.arguments | named})


def hide_ids(execution: schema.ToolExecution) -> schema.ToolResult | None:
    """Return the result without ids of cells, which are for the model."""
    result = execution.result
    if result is None or execution.call.name not in _WITH_IDS:
        return result
    return result.model_copy(update={"output": _ID.sub(r"\1", result.output)})


def transcribe_request(execution: schema.ToolExecution) -> transcript.CallRequest:
    """Return the full request of a call."""
    preview, named = _preview(execution), name_cell(execution, execution.call)
    is_diff = preview is not None and preview.kind == "diff"
    hidden = _IN_DIFF.get(execution.call.name, set()) if is_diff else set()
    rest = {
        name: value
        for name, value in named.arguments.items()
        if name not in hidden and not (preview and value == preview.text)
    }
    is_exact_folded = bool(hidden) or named != execution.call
    return _request(execution.call, rest, preview, is_exact_folded=is_exact_folded)


def transcribe_planned(step: schema.PlanStep) -> transcript.CallRequest:
    """Return the full request of a planned call."""
    code = {"its code": step.code} if step.code else {}
    return _request(step.call, step.call.arguments | code, None)


def _request(
    call: schema.ToolCall,
    shown: Mapping[str, object],
    preview: transcript.Preview | None,
    *,
    is_exact_folded: bool = False,
) -> transcript.CallRequest:
    return transcript.CallRequest(
        arguments=call.arguments,
        preview=preview,
        shown=tuple(
            transcript.Argument(name=name, value=_explain(call.name, name, _in_full(value)))
            for name, value in shown.items()
        ),
        is_exact_folded=is_exact_folded,
        parse_error=call.parse_error or "",
    )


def _preview(execution: schema.ToolExecution) -> transcript.Preview | None:
    """Return the preview, if it is more than the arguments."""
    preview = execution.preview
    if preview is None or preview.kind == "arguments":
        return None
    name = "changes" if preview.kind == "diff" else reveal(preview.language)
    size = plural(preview.text.count("\n") + 1, "line")
    return transcript.Preview(
        kind=preview.kind,
        text=preview.text,
        language=preview.language,
        caption=f"{name} · {size}",
    )


def _explain(tool: str, name: str, value: str) -> str:
    return value + _MEANINGS.get((tool, name, value), "")


def _in_full(value: object) -> str:
    line = _text(value)
    wide = not isinstance(value, str) and len(line) > _WIDE
    return json.dumps(value, ensure_ascii=False, default=str, indent=2) if wide else line


def _in_line(value: object) -> str:
    return shorten(_text(value), 2 * SUMMARY)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def mask_run(run: schema.Run) -> schema.Run:
    """Return the run with masked arguments, in its messages, plan, calls and delegated runs."""
    steps, children = tuple(map(_step, run.steps)), tuple(map(mask_run, run.children))
    masked = {"steps": steps, "plan": mask_plan(run.plan), "children": children}
    return run.model_copy(update=masked)


def mask_plan(plan: Iterable[schema.PlanStep]) -> tuple[schema.PlanStep, ...]:
    """Return the steps of a plan with masked arguments."""
    return tuple(step.model_copy(update={"call": _call(step.call)}) for step in plan)


def mask_execution(execution: schema.ToolExecution) -> schema.ToolExecution:
    """Return the call with masked arguments, unless the user has to decide on it."""
    status, waits = (
        execution.status,
        (schema.ToolStatus.PENDING, schema.ToolStatus.AWAITING_APPROVAL),
    )
    asking = execution.decision is None and status in waits and not execution.dry_run
    return execution if asking else mask_call_arguments(execution)


def _step(step: schema.Step) -> schema.Step:
    message = step.message and _message(step.message)
    executions = tuple(map(mask_call_arguments, step.executions))
    return step.model_copy(update={"message": message, "executions": executions})


def _message(message: schema.Message) -> schema.Message:
    blocks = tuple(_call(b) if isinstance(b, schema.ToolCall) else b for b in message.content)
    return message.model_copy(update={"content": blocks})


def mask_call_arguments(execution: schema.ToolExecution) -> schema.ToolExecution:
    """Return the call with masked arguments."""
    call, preview = _call(execution.call), execution.preview
    if preview and preview.kind == "arguments" and call != execution.call:
        preview = None  # it spells the arguments out; without it they are shown unmasked
    proposed = None if execution.proposed is None else mask_arguments(execution.proposed)
    return execution.model_copy(update={"call": call, "preview": preview, "proposed": proposed})


def _call(call: schema.ToolCall) -> schema.ToolCall:
    return call.model_copy(update={"arguments": mask_arguments(call.arguments)})


TOUCHED = 10
"""Changed variables that are named."""

_SHOWN = ("image/png", "image/jpeg", "text/html", "text/markdown", "text/plain")


def transcribe_result(result: schema.ToolResult, name: str) -> transcript.Result:
    """Return a result as it is drawn; `name` is its tool's."""
    text, displays = _text_and_displays(result)
    own = result.so_far or result.output
    has_own_output = own.strip() != (result.error or "").strip()
    return transcript.Result(
        output=text if result.success else _bare(own) if has_own_output else "",
        error="" if result.success else text,
        media=tuple(_transcribe_media(result, displays, f"Figure from {name}")),
        for_model=_transcribe_for_model(result),
    )


def result_facts(result: schema.ToolResult) -> list[str]:
    """Return remarks on truncation and changed variables, and the one for the user alone."""
    cut = truncation_text(result.truncated) if result.truncated else ""
    remark = reveal(_split_remark(result)[1])
    kept = {each.name: each.kept for each in (*result.variables, *result.lasting) if each.kept}
    lasting = "; ".join(f"{name}: {why}" for name, why in kept.items())
    warning = f"⚠ {reveal(lasting)}" if lasting else ""
    return [text for text in (remark, cut, variables_text(result), warning) if text]


def output_text(result: schema.ToolResult) -> str:
    """Return the tool's output, or why it failed, without terminal escapes."""
    return _bare(result.output if result.success else result.error or result.output)


def text_above_remark(result: schema.ToolResult) -> str:
    """Return the same without a remark for the user alone, which is one of the result's facts."""
    return _bare(_split_remark(result)[0]) if result.success else output_text(result)


def _split_remark(result: schema.ToolResult) -> tuple[str, str]:
    """Return the output without its last line, and that line, if the model read all but it."""
    above, _, last = result.output.rpartition("\n")
    is_remark = result.success and above != "" and above == result.for_model
    return (above, last) if is_remark else (result.output, "")


def last_lines(result: schema.ToolResult) -> str:
    """Return the last lines that a call had put out until it was stopped; "" for others."""
    lines = [
        line
        for line in _bare(result.so_far).split("\n")
        if line not in CHANNEL_MARKS and not line.endswith(SHOWN)
    ]
    return "\n".join(lines[-LINES:])[-CHARS:]


def truncation_text(cut: schema.TruncatedOutput) -> str:
    """Return the size of the cut from an output, and where the full text is."""
    size = f"{plural(cut.original_lines, 'line')}, {cut.original_chars:,} characters"
    return f"Cut from {size}." + (f" All of it: {reveal(cut.path)}" if cut.path else "")


def variables_text(result: schema.ToolResult) -> str:
    """Return what code did to variables: "changed: x (10 → 12); created: df (DataFrame)"."""
    parts: dict[str, list[str]] = {}
    for each in result.variables[:TOUCHED]:
        facts = reveal(each.summary) if each.summary else shorten(each.type)
        label = f"{shorten(each.name)} ({facts})" if facts else shorten(each.name)
        parts.setdefault(each.change, []).append(label)
    texts = [f"{change}: {', '.join(named)}" for change, named in parts.items()]
    more = len(result.variables) - TOUCHED
    return "; ".join([*texts, *([f"… {more} more"] if more > 0 else [])])


def transcribe_image(image: schema.ImageContent, label: str) -> transcript.Image:
    """Return an image as it is drawn."""
    return transcript.Image(
        media_type=image.media_type,
        data=image.data,
        label=label,
        width=image.width,
        height=image.height,
    )


def _transcribe_for_model(result: schema.ToolResult) -> transcript.Fold | None:
    """Return the text that the model read in place of the output."""
    outputs = {result.output.strip(), _split_remark(result)[0].strip()}
    if result.for_model is None or result.for_model.strip() in outputs:
        return None
    return transcript.Fold(title="What the model read", text=_bare(result.for_model))


def _text_and_displays(result: schema.ToolResult) -> tuple[str, list[schema.Display]]:
    """Return the output, and the displays that are not in it: nothing is shown twice."""
    text, displays = text_above_remark(result), []
    figures = {image.data.strip() for image in result.images}
    for display in result.displays:
        plain = _bare(display.data.get("text/plain", ""))
        if display.beside:
            displays.append(display.model_copy(update={"data": {"text/plain": plain}}))
            continue
        repeated = bool(plain) and plain in text
        mime = next((mime for mime in _SHOWN if mime in display.data), "")
        if display.data.get(mime, "").strip() in figures or (mime == "text/plain" and repeated):
            continue
        if repeated:
            text = text.replace(plain, "", 1).strip("\n")
        displays.append(display)
    return text, displays


def _transcribe_media(
    result: schema.ToolResult, displays: list[schema.Display], label: str
) -> list[transcript.Media]:
    """Return the media of a result, in the order in which the code showed them."""
    images = [transcribe_image(image, label) for image in result.images]
    ordered: list[transcript.Media] = []
    image_count = 0
    for display in displays:
        ordered += images[image_count : display.images_before]
        image_count = max(image_count, min(display.images_before, len(images)))
        ordered.append(transcript.Display(data=display.data, label=label))
    return [*ordered, *images[image_count:]]


def _bare(text: str) -> str:
    return strip_escapes(text).strip("\n")


_SIZE = re.compile(r"([\d,]+) rows? × ([\d,]+) columns?|shape: \(([\d_]+), ([\d_]+)\)")  # noqa: RUF001
_ALONE = re.compile(rf"(?:[\w.]+, )?(?:{_SIZE.pattern})")
_TABLE = re.compile(r'<table [^>]{0,80}(?:class="dataframe"|id="T_)')
"""The tag of a table, or of a styled one."""
_SPLIT = '{"columns":['
"""The beginning of a table that pandas writes with `to_json(orient="split", index=False)`."""
_SERIES = re.compile(r"(?:^|\n)(?:Name: [^\n]*, )?(?:Length: (\d+), )?dtype: [^\n]+$")


def summarize_call(execution: schema.ToolExecution) -> str:
    """Return the arguments of a call: a file with its changed lines, or all."""
    call, preview = name_cell(execution, execution.call), execution.preview
    first = next(iter(in_order(call)), ("", None))[1]
    if preview is not None and preview.kind == "diff":
        return shorten(f"{first} {_count_changes(preview)}", SUMMARY)
    return summarize_arguments(call)


def summarize_result(result: schema.ToolResult) -> str:
    """Return a result: the size of a table, a short text, or its number of lines.

    "" if a picture says more, which is drawn below.
    """
    if not result.success:
        return first_line(result.error or "", SUMMARY)
    # The output of a delegated task is all that it did.
    text = text_above_remark(result) if result.child is None else result.for_model or ""
    displays, images = (result.displays, result.images) if result.child is None else ((), ())
    drawn = (each.data.get("text/html", "") for each in displays)
    if series := _SERIES.search(text):
        above = [line for line in text[: series.start()].split("\n") if "  " in line.strip()]
        return plural(int(series[1] or len(above)), "value")  # its index's name stands alone
    # The first line of a list describes one of several.
    head, _, below = text.partition("\n")
    head = head if "\n\n" in text or (below and _ALONE.match(text)) else ""
    last = text.rpartition("\n")[2]
    shown = (head, last if last.startswith(_SPLIT) else "", *drawn)
    if found := [*filter(None, map(_table_size, shown))]:
        return found[-1]
    if images:
        return ""
    if result.truncated:  # what is left of it has fewer
        return plural(result.truncated.original_lines, "line")
    lines = [line for line in text.split("\n") if line.strip()]
    joined = " · ".join(map(str.strip, lines))
    if len(lines) < 2 or len(joined) <= LINE:
        return shorten(joined, SUMMARY)
    return plural(len(lines), "line")


def _count_changes(preview: schema.Preview) -> str:
    """Return how many lines a diff adds and removes."""
    lines = preview.text.partition("\n@@")[2].split("\n")
    counts = [(sign, sum(line.startswith(mark) for line in lines)) for sign, mark in _MARKS]
    return " ".join(f"{sign}{count}" for sign, count in counts if count)


_MARKS = ("+", "+"), ("−", "-")  # noqa: RUF001


def _table_size(shown: str) -> str:
    """Return the size of a table, from its HTML, JSON or the line that describes it, or ""."""
    if found := _SIZE.search(shown):
        rows, columns = (int(each.replace(",", "")) for each in found.groups() if each)
    elif _TABLE.search(shown):
        body = shown.partition("<tbody>")[2]
        rows, columns = body.count("<tr"), body.partition("</tr>")[0].count("<td")
    elif (size := _json_size(shown)) is not None:
        rows, columns = size
    else:
        return ""
    return f"{plural(rows, 'row')} × {columns:,}"  # noqa: RUF001


def _json_size(shown: str) -> tuple[int, int] | None:
    if shown.startswith(_SPLIT):
        with suppress(ValueError, RecursionError):  # cut, or nested too deeply
            match json.loads(shown):
                case {"columns": [*columns], "data": [*rows]}:
                    return len(rows), len(columns)
    return None
