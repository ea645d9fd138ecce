"""A call's result as it is drawn."""

from __future__ import annotations

from ipyagent.agent.live_output import CHARS, LINES
from ipyagent.kernel.displays import SHOWN
from ipyagent.kernel.outputs import CHANNEL_MARKS
from ipyagent.phrases import plural
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import Display, ImageContent, ToolResult, TruncatedOutput
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal, shorten

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
