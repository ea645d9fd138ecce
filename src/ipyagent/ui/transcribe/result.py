"""A call's result as it is drawn, and the call and its result in one line."""

from __future__ import annotations

import ast
import re

from ipyagent.agent.tool_context import CHARS, LINES
from ipyagent.kernel.displays import SHOWN
from ipyagent.kernel.outputs import CHANNEL_MARKS
from ipyagent.phrases import plural
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import (
    Display,
    ImageContent,
    Preview,
    ToolExecution,
    ToolResult,
    TruncatedOutput,
)
from ipyagent.ui import transcript
from ipyagent.ui.reveal import LINE, first_line, reveal, shorten
from ipyagent.ui.transcribe.arguments import SUMMARY, in_order, summarize_arguments

TOUCHED = 10
"""Changed variables that are named."""

_SHOWN = ("image/png", "image/jpeg", "text/html", "text/markdown", "text/plain")


def transcribe_result(result: ToolResult, name: str) -> transcript.Result:
    """Return a result as it is drawn; `name` is its tool's."""
    text, displays = _text_and_displays(result)
    own = result.so_far or result.output
    has_own_output = own.strip() != (result.error or "").strip()
    return transcript.Result(
        output=text if result.success else _bare(own) if has_own_output else "",
        error="" if result.success else text,
        tone="plain" if result.success else "error",
        media=tuple(_transcribe_media(result, displays, f"Figure from {name}")),
        for_model=_transcribe_for_model(result),
    )


def result_facts(result: ToolResult) -> list[str]:
    """Return remarks on truncation and changed variables, and the one for the user alone."""
    cut = truncation_text(result.truncated) if result.truncated else ""
    remark = reveal(_split_remark(result)[1])
    kept = {each.name: each.kept for each in (*result.variables, *result.lasting) if each.kept}
    lasting = "; ".join(f"{name}: {why}" for name, why in kept.items())
    warning = f"⚠ {reveal(lasting)}" if lasting else ""
    return [text for text in (remark, cut, variables_text(result), warning) if text]


def output_text(result: ToolResult) -> str:
    """Return the tool's output, or why it failed, without terminal escapes."""
    return _bare(result.output if result.success else result.error or result.output)


def text_above_remark(result: ToolResult) -> str:
    """Return the same without a remark for the user alone, which is one of the result's facts."""
    return _bare(_split_remark(result)[0]) if result.success else output_text(result)


def _split_remark(result: ToolResult) -> tuple[str, str]:
    """Return the output without its last line, and that line, if the model read all but it."""
    above, _, last = result.output.rpartition("\n")
    is_remark = result.success and above != "" and above == result.for_model
    return (above, last) if is_remark else (result.output, "")


def last_lines(result: ToolResult) -> str:
    """Return the last lines that a call had put out until it was stopped; "" for others."""
    lines = [
        line
        for line in _bare(result.so_far).split("\n")
        if line not in CHANNEL_MARKS and not line.endswith(SHOWN)
    ]
    return "\n".join(lines[-LINES:])[-CHARS:]


def truncation_text(cut: TruncatedOutput) -> str:
    """Return the size of the cut from an output, and where the full text is."""
    size = f"{plural(cut.original_lines, 'line')}, {cut.original_chars:,} characters"
    return f"Cut from {size}." + (f" All of it: {reveal(cut.path)}" if cut.path else "")


def variables_text(result: ToolResult) -> str:
    """Return what code did to variables: "changed: x (10 → 12); created: df (DataFrame)"."""
    parts: dict[str, list[str]] = {}
    for each in result.variables[:TOUCHED]:
        facts = reveal(each.summary) if each.summary else shorten(each.type)
        label = f"{shorten(each.name)} ({facts})" if facts else shorten(each.name)
        parts.setdefault(each.change, []).append(label)
    texts = [f"{change}: {', '.join(named)}" for change, named in parts.items()]
    more = len(result.variables) - TOUCHED
    return "; ".join([*texts, *([f"… {more} more"] if more > 0 else [])])


def transcribe_image(image: ImageContent, label: str) -> transcript.Image:
    """Return an image as it is drawn."""
    return transcript.Image(
        media_type=image.media_type,
        data=image.data,
        label=label,
        width=image.width,
        height=image.height,
    )


def _transcribe_for_model(result: ToolResult) -> transcript.Fold | None:
    """Return the text that the model read in place of the output."""
    outputs = {result.output.strip(), _split_remark(result)[0].strip()}
    if result.for_model is None or result.for_model.strip() in outputs:
        return None
    return transcript.Fold(title="What the model read", text=_bare(result.for_model))


def _text_and_displays(result: ToolResult) -> tuple[str, list[Display]]:
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
    result: ToolResult, displays: list[Display], label: str
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


_MAX_PARSED = 20_000
"""Characters of code whose statements are looked at."""
_SIZE = re.compile(r"([\d,]+) rows × ([\d,]+) columns|shape: \(([\d_]+), ([\d_]+)\)")  # noqa: RUF001
_TABLE = re.compile(r'<table [^>]{0,80}(?:class="dataframe"|id="T_)')
"""The tag of a table, or of a styled one."""
_SERIES = re.compile(r"(?:^|\n)(?:Name: [^\n]*, )?(?:Length: (\d+), )?dtype: [^\n]+$")
_SHOWING = {"print", "show", "close", "tight_layout"}
"""Functions whose calls say less than the statement before them."""


def summarize_call(execution: ToolExecution) -> str:
    """Return the arguments of a call: a file with its changed lines, the gist of code, or all."""
    call, preview = execution.call, execution.preview
    first = next(iter(in_order(call)), ("", None))[1]
    if preview is not None and preview.kind == "diff":
        return shorten(f"{first} {_count_changes(preview)}", SUMMARY)
    if [*call.arguments] == ["code"] and isinstance(first, str):
        return shorten(_find_gist(first), SUMMARY)
    return summarize_arguments(call)


def summarize_result(result: ToolResult) -> str:
    """Return a result: the size of a table, a short text, or its number of lines.

    "" if a picture says more, which is drawn below.
    """
    if not result.success:
        return first_line(result.error or "", SUMMARY)
    text = text_above_remark(result)
    drawn = (each.data.get("text/html", "") for each in result.displays)
    if series := _SERIES.search(text):
        above = [line for line in text[: series.start()].split("\n") if "  " in line.strip()]
        return plural(int(series[1] or len(above)), "value")  # its index's name stands alone
    head = text.partition("\n")[0] if "\n\n" in text else ""  # a list's first is one of several
    if found := [*filter(None, map(_table_size, (head, *drawn)))]:
        return found[-1]
    if result.images:
        return ""
    if result.truncated:  # what is left of it has fewer
        return plural(result.truncated.original_lines, "line")
    lines = [line for line in text.split("\n") if line.strip()]
    joined = " · ".join(map(str.strip, lines))
    if len(lines) < 2 or len(joined) <= LINE:
        return shorten(joined, SUMMARY)
    return plural(len(lines), "line")


def _count_changes(preview: Preview) -> str:
    """Return how many lines a diff adds and removes."""
    lines = preview.text.partition("\n@@")[2].split("\n")
    counts = [(sign, sum(line.startswith(mark) for line in lines)) for sign, mark in _MARKS]
    return " ".join(f"{sign}{count}" for sign, count in counts if count)


_MARKS = ("+", "+"), ("−", "-")  # noqa: RUF001


def _find_gist(code: str) -> str:
    """Return the comment that code begins with, else its last statement that does something.

    Showing and deleting are not meant.
    """
    begin = code.lstrip()
    if begin.startswith("#"):
        return begin.partition("\n")[0]
    if len(code) > _MAX_PARSED or "\\" in code:  # an escape may make Python warn
        return code
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    telling = [each for each in statements if not _only_shows(each)] or statements
    return ast.get_source_segment(code, telling[-1]) or code if telling else code


def _only_shows(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Name()) | ast.Delete():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in _SHOWING
    return False


def _table_size(shown: str) -> str:
    """Return the size of a table, from its HTML or the line that describes it, or ""."""
    if found := _SIZE.search(shown):
        rows, columns = (int(each.replace(",", "")) for each in found.groups() if each)
        return f"{rows:,} rows × {columns:,}"  # noqa: RUF001
    if not _TABLE.search(shown):
        return ""
    body = shown.partition("<tbody>")[2]
    rows, columns = body.count("<tr"), body.partition("</tr>")[0].count("<td")
    return f"{plural(rows, 'row')} × {columns}"  # noqa: RUF001
