"""A run as text, block by block: a call in a line, a decision in full."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from ipyagent import schema
from ipyagent.plaintext import image_text, plural, reveal_prose, strip_escapes, visible
from ipyagent.ui import transcript
from ipyagent.ui.reveal import clean_output, clip_output, find_lexer, reveal, reveal_diff, shorten
from ipyagent.ui.transcribe.call import OPEN, CallContext, transcribe_call
from ipyagent.ui.transcribe.step import transcribe_plan

_DRAWN = (
    *("image/png", "image/jpeg", "image/svg+xml"),
    *("text/html", "text/markdown", "text/plain", "text/latex"),
)


def header_parts(header: transcript.Header) -> list[str]:
    """Return the parts of the first line, after the product's name."""
    return [part for part in (header.model, header.state_text, *header.facts) if part]


def usage_parts(footer: transcript.Footer) -> list[str]:
    """Return how long a run took, and what it used."""
    return [part for part in (footer.duration, *footer.facts, footer.numbers) if part]


def trace_text(footer: transcript.Footer) -> str:
    """Return the trace id in words."""
    return f"trace {footer.trace_id}" if footer.trace_id else ""


def plan_title(plan: transcript.Plan) -> str:
    """Return the length of a plan, and the hash that identifies it."""
    return join_facts([plan.title, f"hash {plan.hash}" if plan.hash else ""])


def user_text(text: transcript.UserText) -> str:
    """Return what the user said, after what became of it."""
    return f"{text.label}: {reveal(text.text)}"


def summary_line(call: transcript.Call) -> str:
    """Return the summary, cut to fit a line of text."""
    return shorten(call.summary)


def outcome_line(call: transcript.Call) -> str:
    """Return the outcome, cut to fit a line of text."""
    return shorten(call.outcome)


def texts_beside_line(call: transcript.Call) -> list[str]:
    """Return the output and the error that the outcome line cuts."""
    result = call.result
    texts = [text for text in (result.error, result.output) if text] if result else []
    is_whole = len(texts) == 1 and reveal(texts[0]) == outcome_line(call)
    return [] if is_whole else texts


def request_texts(call: transcript.Call) -> list[str]:
    """Return the call in full: its preview, and the arguments that this does not show."""
    if call.question:
        return [question_text(call.question)]
    preview = call.request.preview
    preview_text = "" if preview is None else _preview_text(preview.kind, preview.text)
    return [text for text in (preview_text, arguments_text(call.request)) if text]


def effects_text(effects: transcript.Effects) -> str:
    """Return what a call would change, line by line, with diffs and what was put out."""
    lines = [reveal(effects.title)]
    for each in effects.lines:
        change = "" if each.change == "other" else f"{each.change} "
        lines.append(f"  {change}{each.text}")
        lines += (f"    {line}" for line in reveal_diff(each.diff).splitlines())
    if effects.shown:
        text = effects.shown.output or effects.shown.error
        lines += [f"  {effects.shown_title}", *(f"    {line}" for line in reveal(text).split("\n"))]
    return "\n".join(lines).rstrip()


def question_text(question: transcript.Question) -> str:
    """Return a question with its answers to pick from, numbered."""
    choices = (" ".join(reveal(choice).split()) for choice in question.choices)
    lines = [f"  {number}  {choice}" for number, choice in enumerate(choices, 1)]
    return "\n".join([reveal(question.text), *lines])


def arguments_text(request: transcript.CallRequest) -> str:
    """Return the arguments, one a line; several lines are indented below their name."""
    return "\n".join(map(_named_value, request.shown))


def refused_image_text(image: transcript.Image) -> str:
    """Return the text for an image of a type that a page may not draw."""
    return f"[image not shown: {shorten(image.media_type)}]"


def unknown_display_text(display: transcript.Display) -> str:
    """Return the text for a display of a type that cannot be drawn."""
    return f"[output of type {shorten(', '.join(display.data)) or 'nothing'}]"


def richest(display: transcript.Display) -> str:
    """Return the MIME type in which a display is drawn."""
    return next((mime for mime in _DRAWN if mime in display.data), "")


def join_facts(facts: Iterable[str]) -> str:
    """Return facts in one line."""
    return " · ".join(filter(None, facts))


def _preview_text(kind: str, text: str) -> str:
    return reveal_diff(text) if kind == "diff" else reveal(text)


def _named_value(argument: transcript.Argument) -> str:
    """Return a name and its value; no line of a value can be taken for another argument."""
    name = reveal(argument.name).replace("\n", "⟨U+000A⟩")
    lines = reveal(argument.value).split("\n")
    rows = [""] + [f"    {line}" for line in lines] if len(lines) > 1 else [f" {lines[0]}"]
    return f"{name}:" + "\n".join(rows)


_MANY = 40
"""Lines above which the heading counts them: it may be out of sight at their end."""

_WIDTH, _NARROW = 120, 20
_RULE, _RULE_ON = "  │ ", "  ┆ "
_PIECE = re.compile(r"\x1b\[[0-9;]*m|[^\x1b]")


def request_text(about: schema.ToolExecution | schema.Run, *, color: bool) -> str:
    """Return the full text of the user's decision."""
    if isinstance(about, schema.Run):
        plan = transcribe_plan(about, is_whole=True)
        return plan_text(plan) if plan else ""
    return approval_text(transcribe_call(about, CallContext(is_live=True)), color=color)


def approval_text(call: transcript.Call, *, color: bool) -> str:
    """Return the full text of a call to approve, or of its question."""
    if call.question:
        return f"? {question_text(call.question)}"
    # The files that it touches stand above the code: seen, however long that is.
    heading, _, body = call_text(
        f"? {reveal(call.name)} wants to run", call, color=color
    ).partition("\n")
    touches = f"  {call.touches}" if call.touches else ""
    concern = f"  {call.concern}" if call.concern else ""
    effects = textwrap.indent(effects_text(call.effects), "  ") if call.effects else ""
    return "\n".join(filter(None, [heading, touches, body, effects, concern]))


def plan_text(plan: transcript.Plan) -> str:
    """Return the full text of a plan: every step with all of its arguments."""
    lines = [f"{plan_title(plan)}: {plan.goal}"]
    for number, step in enumerate(plan.steps, 1):
        head = f"  {number} {reveal(step.name)}"
        first, *more = step.notes or [""]
        lines += [f"{head} · {first}" if first else head, *(f"    {line}" for line in more)]
        lines += (
            f"  {line}" for line in _indent_with_rule(_arguments(step.request)).split("\n") if line
        )
        lines += [_step_effects(step)] if step.effects else []
    return "\n".join(lines)


def plan_effects_text(plan: transcript.Plan) -> str:
    """Return what the steps of a plan would change, as far as that is known."""
    tried = ((number, step) for number, step in enumerate(plan.steps, 1) if step.effects)
    return "\n".join(
        f"  {number} {reveal(step.name)}\n{_step_effects(step)}" for number, step in tried
    )


def _step_effects(step: transcript.PlanStep) -> str:
    return textwrap.indent(effects_text(step.effects), "    ") if step.effects else ""


def call_text(head: str, call: transcript.Call, *, color: bool) -> str:
    """Return the call in full under a heading, which counts the lines if they are many."""
    body = call_body(call, color=color)
    rows = body.count("\n") + 1
    size = f" ({plural(rows, 'line')})" if rows > _MANY else ""
    return f"{head}{size}:\n{body}" if body else head


def call_body(call: transcript.Call, *, color: bool) -> str:
    """Return the call in full, set off from the text around it."""
    texts, preview = request_texts(call), call.request.preview
    if color and preview and preview.text:
        language = "diff" if preview.kind == "diff" else preview.language
        texts[0] = _highlight(texts[0].rstrip("\n"), language)
    return _indent_with_rule("\n".join(text.rstrip("\n") for text in texts), color=color)


def _arguments(request: transcript.CallRequest) -> str:
    texts = [arguments_text(request), reveal(request.parse_error)]
    return "\n".join(text for text in texts if text)


def _indent_with_rule(text: str, *, color: bool = False) -> str:
    """Return the text behind a rule; long lines continue behind another, never at the margin."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns - len(_RULE) if color else _WIDTH
    rows = [(i, part) for line in text.split("\n") for i, part in enumerate(wrap(line, width))]
    return "\n".join(f"{_RULE_ON if i else _RULE}{part}" for i, part in rows) if text else ""


def wrap(line: str, width: int) -> Iterator[str]:
    """Yield the line in parts of at most `width` cells; our own colors take none."""
    if len(line) <= width // 2:
        yield line
        return
    part: list[str] = []
    used = 0
    for piece in _PIECE.findall(line):
        cells = 0 if piece[0] == "\x1b" else _cell_width(piece)
        if part and used + cells > max(width, _NARROW):
            yield "".join(part)
            part, used = [], 0
        part.append(piece)
        used += cells
    yield "".join(part)


def _highlight(code: str, language: str) -> str:
    lexer = find_lexer(code, language)
    if lexer is None:
        return code
    from pygments import formatters, highlight

    return str(highlight(code, lexer, formatters.TerminalFormatter())).rstrip("\n")


def _cell_width(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


ASK_ANEW = "%%agent --fresh asks the model."
"""The way from a replayed run to a new one."""

SUMMARY = 1_000
"""Characters of an answer that its summary has."""

_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}
_COLORS = {
    schema.ToolStatus.SUCCESS: "green",
    schema.ToolStatus.FAILED: "red",
    schema.ToolStatus.DENIED: "yellow",
    schema.ToolStatus.CANCELLED: "yellow",
    schema.ToolStatus.UNKNOWN: "yellow",
}
_BEGUN = {
    schema.ToolStatus.RUNNING,
    schema.ToolStatus.SUCCESS,
    schema.ToolStatus.FAILED,
    schema.ToolStatus.CANCELLED,
    schema.ToolStatus.UNKNOWN,
}


class TextPrinter:
    """Writes the blocks of a transcript, without escapes but its own; `run` names the run."""

    def __init__(
        self, write: Callable[[str], object], *, color: bool, run: str = "ipyagent.last"
    ) -> None:
        self.write, self.color, self.run = write, color, run
        self._at_line_start = True

    def print_head(self, drawn: transcript.Transcript) -> None:
        """Write the part before the first step."""
        header = drawn.header
        self.line(join_facts(["ipyagent", header.model, header.badge]), "bold")
        for fold in drawn.footer.folds:
            size = plural(len(fold.text.splitlines()), "line")
            self.line(f"{fold.title.lower()}: {size} of context", "dim")
            self.write_indented(reveal(fold.text) if fold.is_open else "")
        for note in drawn.notes:
            self.line(reveal(note), "yellow")

    def print_steps(self, drawn: transcript.Transcript) -> None:
        """Write the finished steps, and the checklist in its place."""
        calls = 0
        for place, step in enumerate(drawn.steps):
            if place == drawn.todos_at:
                self.print_todos(drawn.todos)
            self.print_step(step, calls)
            calls += len(step.calls)
        if drawn.todos_at == len(drawn.steps):
            self.print_todos(drawn.todos)

    def print_step(self, step: transcript.Step, index: int) -> None:
        """Write a finished step; `index` is the position of its first call in the run."""
        self.print_user_texts(step.user_texts)
        for note in step.notes:
            self.line(reveal(note), "dim")
        if step.thinking:
            self.print_thinking(step.thinking)
        self.line(prose(step.text).strip("\n"))
        for place, call in enumerate(step.calls, index):
            self.print_question(call)
            self.print_decision(call)
            self.print_running(call)
            if call.status is not schema.ToolStatus.AWAITING_APPROVAL:
                self.print_call(call, place)
        self.line(step.facts, "dim")

    def print_user_texts(self, texts: Iterable[transcript.UserText]) -> None:
        """Write what the user added while the run was on."""
        for text in texts:
            self.line(user_text(text), "bold")

    def print_thinking(self, thinking: transcript.Fold) -> None:
        """Write the heading of thinking, and the thinking if it is expanded."""
        self.line(thinking.title, "dim")
        self.write_indented(prose(thinking.text).strip("\n") if thinking.is_open else "")

    def print_question(self, call: transcript.Call) -> None:
        """Write in full the call that the user was asked about."""
        if call.was_asked:
            self.line(approval_text(call, color=self.color))

    def print_decision(self, call: transcript.Call) -> None:
        """Write that the user approved."""
        if call.was_asked and not call.question and call.status in _BEGUN:
            self.line(f"  {call.decision}", "bold")

    def print_running(self, call: transcript.Call) -> None:
        """Write a running call: in full if it may change something and nobody was asked."""
        if call.status not in _BEGUN or call.is_dry:
            return
        if call.position:
            self.line(f"▶ {call.position} {reveal(call.name)}", "dim")
        elif call.is_sensitive and not call.was_asked:
            runs = "" if call.gist.kind == "look" else " runs"
            why = f", {call.decision}" if call.decision else ""
            self.line(call_text(f"▶ {reveal(call.name)}{runs}{why}", call, color=self.color))

    def print_call(self, call: transcript.Call, index: int) -> None:
        """Write the line and result of a finished call; `index` is its position."""
        texts = texts_beside_line(call)
        self.line(self.call_line(call, "" if texts else outcome_line(call)))
        if call.is_open and not (call.was_asked or call.is_sensitive):
            self.line(call_body(call, color=self.color))
        for text in texts:
            self.write_indented(
                clip_output(visible(text), f"in {self.run}.results[{index}].output")
            )
        for media in call.result.media if call.result else ():
            self._print_media(media, call)
        for fact in call.facts:
            self.line(f"  {fact}", "dim")
        if call.result and (fold := call.result.for_model):
            where = f"{self.run}.results[{index}].for_model"
            self.line(f"  {fold.title}: {where}", "dim")

    def print_todos(self, todos: Iterable[transcript.Todo]) -> None:
        """Write the checklist."""
        self.line("\n".join(f"  {todo.glyph} {reveal(todo.text)}" for todo in todos))

    def print_end(self, drawn: transcript.Transcript) -> None:
        """Write the ending."""
        header, ending, footer = drawn.header, drawn.ending, drawn.footer
        color = {"done": "green", "failed": "red"}.get(header.state, "yellow")
        parts = [*header_parts(header)[1:], *usage_parts(footer)]
        self.line(join_facts(parts), color)
        if ending:
            text = "\n".join(text for text in (ending.title, ending.text) if text)
            self.line(clean_output(text), color)
        self.line(ASK_ANEW if drawn.replayed else "", "dim")
        if drawn.verbose >= OPEN:
            self.line(trace_text(footer), "dim")

    def line(self, text: str, style: str = "") -> None:
        """Write text on lines of its own."""
        if not self._at_line_start:
            self.put("\n")
        if text:
            self.put(text, style)
            self.put("\n")

    def write_indented(self, text: str) -> None:
        """Write indented text on lines of its own."""
        for line in text.split("\n") if text else ():
            self.line(f"  {line}".rstrip(), "dim")

    def put(self, text: str, style: str = "") -> None:
        """Write text without a line break before it."""
        if text:
            self.write(self.paint(text, style))
            self._at_line_start = text.endswith("\n")

    def paint(self, text: str, style: str) -> str:
        """Return the text in a style, if there are colors."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and style and text else text

    def _print_media(self, media: transcript.Media, call: transcript.Call) -> None:
        if isinstance(media, transcript.Image):
            text = image_text(media.width, media.height)
            if call.result is None or text not in call.result.output:
                self.line(f"  {text}")
        else:
            plain = clean_output(media.data.get("text/plain", "")).strip("\n")
            self.write_indented(plain if plain != outcome_line(call) else "")

    def call_line(self, call: transcript.Call, outcome: str) -> str:
        """Return the line of a call, with the first line of its outcome."""
        glyph = self.paint(call.glyph, "dim" if call.is_dry else _COLORS.get(call.status, ""))
        parts = [
            f"{glyph} {self.paint(reveal(call.name), 'bold')}",
            f"[{call.badge}]" if call.badge else "",
            summary_line(call),
            f"→ {outcome}" if outcome else "",
            "" if _is_decision_above(call) else call.verdict,
            self.paint(f" {call.duration}", "dim") if call.duration else "",
        ]
        return " ".join(part for part in parts if part)


def summarize(drawn: transcript.Transcript) -> str:
    """Return what was asked, done and answered in few lines; richer formats stand beside it."""
    header, ending, plan = drawn.header, drawn.ending, drawn.plan
    facts = [*header_parts(header), *usage_parts(drawn.footer)]
    printer = TextPrinter(str, color=False)
    calls = [call for step in drawn.steps for call in step.calls]
    answers = [step.text for step in drawn.steps if step.is_answer]
    said = [text for step in drawn.steps for text in step.user_texts]
    parts = [
        reveal(join_facts(["ipyagent", *facts, header.badge])),
        *map(reveal, drawn.notes),
        *([plan_text(plan), plan.hint] if plan and drawn.is_draft else []),
        *(printer.call_line(call, outcome_line(call)) for call in calls),
        *map(user_text, (*said, *drawn.unsent)),
        shorten_prose(prose(answers[-1]).strip("\n")) if answers else "",
        clean_output(f"{ending.title}\n{ending.text}".rstrip()) if ending else "",
        ASK_ANEW if drawn.replayed else "",
    ]
    return "\n".join(part for part in parts if part)


def shorten_prose(text: str) -> str:
    """Return the beginning of a text that is long."""
    return text if len(text) <= SUMMARY else f"{text[:SUMMARY]}…"


def render(drawn: transcript.Transcript) -> str:
    """Return a run as text, as the terminal would have shown it."""
    parts: list[str] = []
    printer = TextPrinter(parts.append, color=False)
    printer.print_head(drawn)
    if drawn.plan:
        printer.line(plan_text(drawn.plan))
        printer.line(drawn.plan.hint, "yellow")
    printer.print_steps(drawn)
    printer.print_user_texts(drawn.unsent)
    if drawn.is_over:
        printer.print_end(drawn)
    return "".join(parts).rstrip("\n")


def render_steps(drawn: transcript.Transcript, run: str) -> str:
    """Return the steps of a run as text; `run` names it."""
    parts: list[str] = []
    TextPrinter(parts.append, color=False, run=run).print_steps(drawn)
    return "".join(parts).rstrip("\n")


def _is_decision_above(call: transcript.Call) -> bool:
    """Return whether the call and its decision were shown in full above its line."""
    was_shown = call.is_sensitive or call.was_asked
    return was_shown and call.status in _BEGUN and call.status is not schema.ToolStatus.UNKNOWN


def prose(text: str) -> str:
    """Return a model's text with hidden characters made visible, except needed ones."""
    return reveal_prose(strip_escapes(text))
