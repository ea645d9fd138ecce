"""The side panel as blocks of HTML, with the data of what a page adds to them.

    asked            what waits
    ├─ asked/RUN ID  an approval in a line
    │  └─ …/call     in full, with …/form: a page draws them where its cell is gone
    plan             plan and tasks of the newest run
    runs
    └─ runs/RUN      a run, with the runs that its calls began
    variables        variables that runs touched
    sessions
    usage            usage of the session

The rows of a section stand in its list, "runs/".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ipyagent import schema
from ipyagent.plaintext import dollars, plural
from ipyagent.ui.blocks import Block, glyph_html
from ipyagent.ui.messages import (
    Blocks,
    Drawn,
    Head,
    NewCell,
    Own,
    PendingApproval,
    Row,
    RowButton,
    Search,
)
from ipyagent.ui.parts import element, note_html, text_element
from ipyagent.ui.reveal import first_line, reveal
from ipyagent.ui.sanitize import escape
from ipyagent.ui.transcribe.call import GLYPHS
from ipyagent.ui.transcript import State, Todo

PROMPT = 200
"""Characters of a prompt in the panel."""

SESSIONS = 10
"""Sessions in the panel, the newest; others are found."""

WAITS = "waiting for you"

_TABLE = """\
import pandas as pd

sales = pd.DataFrame({
    "region": ["North", "South", "East"] * 2,
    "year": [2024] * 3 + [2025] * 3,
    "revenue": [84.2, 61.5, 47.0, 91.3, 58.8, 52.6],
})"""

EXAMPLE: Final = (
    NewCell(kind="code", source=_TABLE),
    NewCell(kind="code", source="%%agent\nPlot revenue by region"),
)
"""Cells for a user without data: a small table, and a request about it."""

_GLYPHS: Final[dict[State, str]] = {
    "running": "▶",
    "waiting": "?",
    "done": "✓",
    "partial": "◐",
    "failed": "✗",
    "cancelled": "■",
}

PlanStep = tuple[schema.PlanStep, schema.ToolStatus]
"""A step of a plan, and how far it is."""


class RunRow(NamedTuple):
    """A run in a line; `facts` is everything but its prompt."""

    id: str
    prompt: str
    state: State
    state_text: str
    facts: tuple[str, ...]
    cell_id: str | None = None
    is_live: bool = False
    children: tuple[RunRow, ...] = ()

    @property
    def title(self) -> str:
        """The first line of the prompt."""
        return first_line(self.prompt, PROMPT) or "no prompt"


def to_blocks(blocks: Iterable[Block]) -> Blocks:
    """Return blocks as a page gets them."""
    drawn, order = [], dict[str, list[str]]()
    for key, parent, html, more, own in blocks:
        drawn.append(Drawn(key=key, html=html, more=more, own=own))
        order.setdefault(parent, []).append(key)
    return Blocks(set=tuple(drawn), order={key: tuple(keys) for key, keys in order.items()})


class Line(NamedTuple):
    """A row of a section, by its name."""

    name: str
    html: str
    own: Own | None = None


def _section(
    key: str, title: str, lines: Iterable[Line], badge: str = "", own: Own | None = None
) -> Iterator[Block]:
    """Yield a section that can be folded, with its rows; nothing without any."""
    if lines := [*lines]:
        head = f"<summary><h3>{title}</h3> <small>{escape(badge) or len(lines)}</small></summary>"
        html = f'<details class="ia-section ia-section-{key}" open>{head}\n</details>'
        yield Block(key, "", html, own=own)
        yield Block(f"{key}/", key, '<ul class="ia-rows"></ul>')
        for name, row, own_of_row in lines:
            yield Block(f"{key}/{name}", f"{key}/", row, own=own_of_row)


def _row(glyph: str, title: str, notes: Iterable[str] = (), below: str = "", kind: str = "") -> str:
    """Return a row: its title above its notes."""
    small = text_element("small", "notes", reveal(" · ".join(filter(None, notes))))
    words = f'<span class="ia-words"><span class="ia-title">{title}</span>{small}</span>'
    return f'<li class="ia-{kind or "item"}"><p class="ia-row">{glyph}{words}</p>{below}</li>'


def draw_waiting(
    asked: Sequence[tuple[PendingApproval, str]], prompts: Mapping[str, str]
) -> Iterator[Block]:
    """Yield what waits, each with the prompt of its run; `asked` has the HTML of each in full."""
    lines = (_question(each, prompts) for each, _ in asked)
    yield from _section("asked", "Waiting for you", lines)
    for approval, html in asked:
        row = f"asked/{_name(approval)}"
        yield Block(f"{row}/call", row, html)
        yield Block(f"{row}/form", f"{row}/call", "<div></div>", own=approval.asked)


def _name(approval: PendingApproval) -> str:
    return f"{approval.run_id} {approval.approval_id}"


def _question(approval: PendingApproval, prompts: Mapping[str, str]) -> Line:
    about, key = approval.about, _name(approval)
    title = first_line(prompts.get(approval.run_id, ""), PROMPT) or about
    html = _row(glyph_html("waiting", _GLYPHS["waiting"], WAITS), escape(title), [about])
    return Line(
        key, html, _buttons(_jump(approval.cell_id, "Go to it", f"the cell that asks: {about}"))
    )


def draw_progress(
    plan: Iterable[PlanStep], todos: Iterable[Todo], progress: str
) -> Iterator[Block]:
    """Yield the plan and the tasks of a run."""
    lines = [_step(f"{number}", *each) for number, each in enumerate(plan)]
    lines += [_task(f"t{number}", each) for number, each in enumerate(todos)]
    yield from _section("plan", "Plan and tasks", lines, progress)


def _step(name: str, step: schema.PlanStep, status: schema.ToolStatus) -> Line:
    title = f"<code>{escape(reveal(step.call.name))}</code> {escape(reveal(step.note))}"
    return Line(name, _row(glyph_html(status, *GLYPHS[status]), title))


def _task(name: str, todo: Todo) -> Line:
    glyph = glyph_html(todo.status, todo.glyph, todo.status_text)
    return Line(name, _row(glyph, escape(reveal(todo.text))))


def draw_runs(lines: Iterable[Line]) -> Iterator[Block]:
    """Yield runs."""
    yield from _section("runs", "Runs", lines)


def run_line(run: RunRow) -> Line:
    """Return a run, with those that its calls began."""
    jump = _jump(run.cell_id, "Go to cell", f"the cell of “{run.title}”")
    stop = RowButton(name="stop", label="■ Stop", title="Stop this run", of=run.id)
    return Line(run.id, _run_html(run), _buttons(jump, stop if run.is_live else None))


def _run_html(run: RunRow) -> str:
    children = element("ul", "rows", "".join(map(_run_html, run.children)))
    glyph = glyph_html(run.state, _GLYPHS[run.state], run.state_text)
    return _row(glyph, escape(run.title), run.facts, children)


def draw_variables(lines: Iterable[Line]) -> Iterator[Block]:
    """Yield the last change of each variable."""
    yield from _section("variables", "Variables touched", lines)


def variable_line(change: schema.VariableChange, run_id: str) -> Line:
    """Return a variable that a run has changed; it can be opened if it is there."""
    kind, about = change.change, escape(reveal(change.summary or change.type))
    chip = f'<code class="ia-chip ia-{kind}">{escape(reveal(change.name))}</code>'
    words = f'{chip} <span class="ia-type">{about}</span> <small>{kind}</small>'
    if kind == "deleted":
        return Line(change.name, f'<li><p class="ia-line">{words}</p></li>')
    html = f'<li><details><summary class="ia-line">{words}</summary></details></li>'
    return Line(change.name, html, Head(name=change.name, run_id=run_id))


def draw_sessions(
    records: Iterable[schema.Session],
    prompts: Mapping[str, str],
    current: str | None,
    *,
    is_free: bool,
) -> Iterator[Block]:
    """Yield the current and the newest sessions, by their first prompts.

    Others can go on if the kernel is free.
    """
    known = [each for each in records if each.id in prompts or each.id == current]
    known.sort(key=lambda each: each.id != current)  # it may be an old one
    more = Search() if len(known) > SESSIONS else None
    lines = [_session(each, prompts, current, is_free=is_free) for each in known[:SESSIONS]]
    yield from _section("sessions", "Sessions", lines, f"{len(known)}", more)


def draw_found(
    records: Iterable[schema.Session],
    prompts: Mapping[str, str],
    current: str | None,
    *,
    is_free: bool,
) -> Iterator[Block]:
    """Yield the rows of sessions that were found, as they stand in their section."""
    found = [each for each in records if each.id in prompts]
    for block in draw_sessions(found, prompts, current, is_free=is_free):
        if block.parent:
            yield block._replace(parent="" if block.parent == "sessions" else block.parent)
    if not found:
        yield Block("none", "", note_html("No session has that in a prompt or in its name."))


def _session(
    record: schema.Session, prompts: Mapping[str, str], current: str | None, *, is_free: bool
) -> Line:
    ended = record.state is schema.SessionState.TERMINATED
    state = "current" if record.id == current else "ended" if ended else "open"
    at = (record.last_run_at or record.started_at).astimezone()
    is_today = at.date() == schema.now().astimezone().date()
    when = f"{at:%H:%M}" if is_today else f"{at:%d %b %Y}"
    title = first_line(prompts.get(record.id, ""), PROMPT) or "no prompt so far"
    notes = ["" if state == "open" else state, record.name, when]
    hint = f"Go on with the session {record.name}"
    resume = RowButton(name="resume", label="Go on", title=hint, of=record.id)
    own = _buttons(resume if is_free and state == "open" else None)
    return Line(record.id, _row("", escape(title), notes, kind=f"session-{state}"), own)


def draw_usage(runs: int, tokens: int, cost: float | None) -> Iterator[Block]:
    """Yield the usage of the session: "2 runs · 5,034 tokens · $0.020"; nothing without runs."""
    price = dollars(cost) if cost is not None else "no price known" if tokens else ""
    parts = (plural(runs, "run"), f"{tokens:,} tokens" if tokens else "", price)
    if runs:
        text = " · ".join(filter(None, parts))
        yield Block("usage", "", f'<p class="ia-usage">This session: {text}</p>')


def _jump(cell_id: str | None, label: str, what: str) -> RowButton:
    return RowButton(name="jump", label=label, title=f"Go to {what}", of=cell_id or "")


def _buttons(*buttons: RowButton | None) -> Row | None:
    there = tuple(filter(None, buttons))
    return Row(buttons=there) if there else None
