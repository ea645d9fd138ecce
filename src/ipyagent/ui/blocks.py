"""A run as blocks of HTML, each with a key that stays its own; joined, they are the static card.

    r                run
    ├─ r/h           header: badges, and how far the run is
    ├─ r/n           notes
    ├─ r/p           plan
    ├─ r/g0          fold of steps from the index 0 on
    │  └─ r/s1       step; its parts are r/s1/u user's texts, /n notes, /w what is waited for,
    │                /t thinking, /x text with the blocks /x/0 …, /w0 call that is being written,
    │                /i images, /c0 call, /c0/m its figures and tables, /z facts
    ├─ r/t           todos
    ├─ r/e           ending
    ├─ r/f           footer
    └─ r/u           user's texts that were not sent

The HTML reads well without a style sheet: code hosts and untrusted notebooks keep none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from ipyagent.plaintext import plural, reveal_prose
from ipyagent.schema import ToolStatus
from ipyagent.ui import plain_text as words, transcript
from ipyagent.ui.messages import Own
from ipyagent.ui.parts import (
    NO_MATH,
    details,
    diff_html,
    element,
    fold_html,
    media_html,
    note_html,
    pre,
    text_element,
    with_inline_code,
)
from ipyagent.ui.reveal import clean_output, reveal
from ipyagent.ui.sanitize import (
    escape,
    markdown_blocks,
    markdown_to_html,
)
from ipyagent.ui.transcribe.call import OPEN

_FEW, _MANY = 2, 20
"""Looks in a row that are always shown each; and steps of a run that is on behind one line."""

_CHIPS = 4
"""Changes that the line of a fold names."""

_ICONS: Final = {"look": "⌕", "change": "✎", "file": "▤", "question": "?"}
"""The icons of kinds where there is no style, which draws others."""


class Block(NamedTuple):
    """One element of a run: its last tag ends it, and blocks below it stand before that.

    A page gets more: plain text behind its words, as long as that grows, and its `own`: the data of
    what only a page adds.
    """

    key: str
    parent: str
    html: str
    more: str = ""
    own: Own | None = None


def run_html(drawn: transcript.Transcript) -> str:
    """Return the run as HTML with its style, without scripts and buttons."""
    html = join_blocks(list_blocks(drawn))
    return f"<style>{needed_style(html)}</style>\n{html}"


def needed_style(html: str) -> str:
    """Return the rules of the card that this HTML needs: each run has its own."""
    root, rules = _rules()
    used = set(re.findall(r"<\w+|ia-[a-z-]+", html))
    return f"{root}{''.join([rule for rule, names in rules if names & used])}}}"


@cache
def _rules() -> tuple[str, list[tuple[str, set[str]]]]:
    """Return the beginning of the style, and each rule with the classes or tags it is for."""
    css = Path(__file__).with_name("card.css").read_text("utf-8")
    text = " ".join(re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL).split())
    text = re.sub(r" ?([{};,>]) ?", r"\1", text).replace(";}", "}").replace(": ", ":")
    rules = re.findall(r"[^{};]+\{(?:[^{}]|\{[^{}]*\})*\}", text.partition("{")[2])
    selectors = [rule.partition("{")[0] for rule in rules]
    classes = [re.findall(r"\.(ia-[a-z-]+)", each) for each in selectors]
    tags = [[f"<{tag}" for tag in re.findall(r"\w+(?=[,):]|$)", each)] for each in selectors]
    names = (set(one or other) for one, other in zip(classes, tags, strict=True))
    return text[: text.index(rules[0])], [*zip(rules, names, strict=True)]


def join_blocks(blocks: Iterable[Block]) -> str:
    """Return blocks as one HTML; they come in order, and each after its parent."""
    parts: list[str] = []
    unended: list[tuple[str, str]] = []
    for key, parent, html, *_ in blocks:
        while unended and unended[-1][0] != parent:
            parts.append(unended.pop()[1])
        begin, tag, end = html.rpartition("</")
        parts.append(begin)
        unended.append((key, f"{tag}{end}\n"))
    return "".join([*parts, *(end for _, end in reversed(unended))])


DrawStep = Callable[[transcript.Step, str], Iterable[Block]]
"""Returns the blocks of a step in the block with that key."""

Keep = Callable[..., str]
"""Takes a name, a function that draws, and its arguments; may keep what it drew of the same."""


def _draw(_name: str, draw: Callable[..., str], *of: object) -> str:
    return draw(*of)


def list_blocks(
    drawn: transcript.Transcript,
    draw_step: DrawStep | None = None,
    start: int = 0,
    keep: Keep = _draw,
) -> list[Block]:
    """Return the blocks of a run, in the order of the card, but those of steps before `start`."""
    header, plan, ending, state = drawn.header, drawn.plan, drawn.ending, drawn.header.state
    public = f'data-ipyagent="run" data-state="{state}"'
    kind = f"ia-{state} ia-draft" if drawn.is_draft else f"ia-{state}"
    is_over, steps = drawn.is_over, drawn.steps
    is_folded = is_over and drawn.verbose < OPEN and any(each.is_answer for each in steps)
    blocks = [
        Block("r", "", f'<div class="ipyagent-card {kind} {NO_MATH}" {public}>\n</div>'),
        Block("r/h", "r", keep("h", _header, header, is_over, ending is not None)),
        Block("r/n", "r", keep("n", _notes, drawn.notes) if drawn.notes else ""),
        Block("r/p", "r", keep("p", plan_html, plan, state) if plan else ""),
        *_steps(drawn, draw_step or step_blocks, start, keep, is_folded=is_folded),
        Block("r/e", "r", keep("e", ending_html, ending) if ending else ""),
        Block("r/f", "r", keep("f", _footer, drawn.footer, header.model if is_over else "")),
        Block("r/u", "r", keep("u", _unsent, drawn.unsent) if drawn.unsent else ""),
    ]
    return [each for each in blocks if each.html]


def _header(header: transcript.Header, is_over: bool, has_ending: bool) -> str:
    """Return what a finished run does not show by its answer or its ending."""
    state, _, rest = header.state_text.partition(" · ")
    if is_over and (has_ending or state == "done"):
        facts = [escape(rest)]
    else:
        said = text_element("span", "state", header.state_text)
        facts = [escape(header.model), said, *map(escape, header.facts)]
    mark = text_element("mark", "badge", header.badge)
    return element("p", "header", words.join_facts([mark, *facts]))


def _unsent(texts: tuple[transcript.UserText, ...]) -> str:
    return element("div", "unsent", "".join(map(_user_text, texts)))


def _steps(
    drawn: transcript.Transcript, draw_step: DrawStep, start: int, keep: Keep, *, is_folded: bool
) -> list[Block]:
    """Return the steps: folded, they stand behind one line, else looks in a row do."""
    steps, at, blocks = drawn.steps, drawn.todos_at, list[Block]()
    todos = [Block("r/t", "r", keep("t", _todos, drawn.todos))] if drawn.todos else []
    with_calls = (n for n, each in enumerate(steps) if _calls(each))
    last = max(with_calls, default=-1) if is_folded else -1

    def group_of(place: int) -> tuple[bool, int]:
        is_behind = _stands_back(steps[place], is_folded=is_folded, is_last=place == last)
        return is_behind, 0 if is_folded else place // _MANY

    for (is_behind, _), group in groupby(range(start, len(steps)), group_of):
        places = [*group]
        span, parent = steps[places[0] : places[-1] + 1], "r"
        if is_behind and sum(map(_count_lines, span)) > (1 if is_folded else _FEW):
            parent = f"r/g{places[0]}"
            blocks.append(Block(parent, "r", _fold_line(span)))
        for place in places:
            blocks += todos if place == at else ()
            blocks += draw_step(steps[place], parent)
    return [*blocks, *(todos if at >= len(steps) else ())]


def _count_lines(step: transcript.Step) -> int:
    """Return how many lines and pictures of a step would be behind a line."""
    return len(_calls(step)) + len(_media(step)) + bool(step.text)


def begin_of_last_group(steps: Sequence[transcript.Step]) -> int:
    """Return the index from which steps of a run that is on may still come behind one line."""
    begin = max(0, len(steps) - 1)
    while begin % _MANY and _stands_back(steps[begin - 1], is_folded=False, is_last=False):
        begin -= 1
    return begin


def _stands_back(step: transcript.Step, *, is_folded: bool, is_last: bool) -> bool:
    """Return whether a step is less than the answer of its run, or, without one, only looked.

    Figures are in sight, tables only as the last that the answer follows.
    """
    if step.is_answer or step.user_texts or step.images:
        return False
    calls = _calls(step)
    for call in calls:
        if call.is_open or call.is_dry:
            return False
    if is_folded:
        media = _media(step)
        return not (any(map(_is_figure, media)) or (is_last and media))
    only_looked = {*map(_kind_of, calls)} == {"look"}
    return only_looked and not (step.text or step.notes or _media(step))


def _calls(step: transcript.Step) -> list[transcript.Call]:
    """Return the calls of a step; those of a plan stand in the card of the plan."""
    return [each for each in step.calls if not each.is_planned]


def _media(step: transcript.Step) -> list[transcript.Media]:
    return [each for call in step.calls if call.result for each in call.result.media]


def _is_figure(media: transcript.Media) -> bool:
    return isinstance(media, transcript.Image) or words.richest(media).startswith("image/")


def _fold_line(steps: Sequence[transcript.Step]) -> str:
    """Return the line for steps: how many of each kind, and what they changed."""
    calls = [call for step in steps for call in _calls(step)]
    counts = Counter(map(_kind_of, calls))
    looks = counts.pop("look", 0)
    named = {1: "Looked once", 2: "Looked twice"}.get(looks, f"Looked {looks} times")
    others = (plural(n, kind) if kind in _ICONS else f"{n} {kind}" for kind, n in counts.items())
    if len(calls) == 1 and calls[0].status is ToolStatus.SUCCESS:
        title, found = calls[0].gist.title, calls[0].gist.changes
    else:
        title = words.join_facts([named if looks else "", *others])
        found = tuple([change for call in calls for change in _list_changes(call)])
    changes = list(dict.fromkeys(found))
    more = f" <small>… {len(changes) - _CHIPS} more</small>" if len(changes) > _CHIPS else ""
    icon = _icon("change" if "change" in counts else "look") if calls else ""
    line = f"{icon} {escape(title or 'Thought')} {' '.join(map(_chip, changes[:_CHIPS]))}{more}"
    return _line('class="ia-steps"', line)


def _list_changes(call: transcript.Call) -> tuple[transcript.EffectLine, ...]:
    """Return what a call changed, also the file of a diff, which the call's own line names."""
    is_file = call.gist.kind == "file" and call.status is ToolStatus.SUCCESS
    own = transcript.EffectLine(change="changed", text=call.summary)
    return (own, *call.gist.changes) if is_file else call.gist.changes


def _line(attributes: str, line: str, body: str = "", *, is_open: bool = False) -> str:
    """Return an element that is a line until it is opened."""
    body = f'<blockquote class="ia-body">\n{body}</blockquote>' if body else ""
    return (
        f"<details {attributes}{' open' * is_open}>"
        f'<summary class="ia-line">{line}</summary>\n{body}</details>'
    )


def _kind_of(call: transcript.Call) -> str:
    """Return the kind of a call, or how it ended if that was not well."""
    kind = "change" if call.gist.kind == "file" else call.gist.kind
    return kind if call.status is ToolStatus.SUCCESS else call.status_text


def _todos(todos: Iterable[transcript.Todo]) -> str:
    texts = (escape(reveal(f"{todo.glyph} {todo.text}")) for todo in todos)
    items = "".join(f"<li>{text}</li>" for text in texts)
    return element("ul", "todos", items, ' data-ipyagent="todos"')


def plan_html(plan: transcript.Plan, state: str) -> str:
    """Return the plan: in full while it waits, its progress afterwards."""
    title = f"<strong>{escape(plan.goal)}</strong> <small>{escape(words.plan_title(plan))}</small>"
    public = f' data-ipyagent="plan" data-state="{state}"'
    steps = element("ol", "plan-steps", "\n".join(map(_plan_step, plan.steps)), public)
    body = f"<summary>{title}</summary>\n{steps}\n{_own_note(plan.hint)}"
    return element("details", "plan", body, " open" * (state in ("running", "waiting")))


def _plan_step(step: transcript.PlanStep) -> str:
    """Return a step of a plan: its note or its title, and behind it the full call."""
    is_begun = step.status is not ToolStatus.PENDING
    note = "<br>".join(map(escape, step.notes))
    parts = [
        _glyph(step) if is_begun else "",
        element("b", "summary", note or escape(step.title)),
        element("small", "duration", escape(reveal(step.name))),
        verdict_html(step.verdict),
    ]
    body = [
        _effects(step.effects, with_media=True) if step.effects else "",
        pre(words.arguments_text(step.request)),
        note_html(step.request.parse_error),
    ]
    public = f'data-ipyagent="plan-step" data-state="{step.status}"'
    card = _line("", " ".join(filter(None, parts)), "".join(body), is_open=step.is_open)
    return f"<li {public}>{card}</li>"


def step_blocks(
    step: transcript.Step, parent: str, texts: Sequence[str] | None = None, keep: Keep = _draw
) -> list[Block]:
    """Return the blocks of a step, with the blocks of its text if they are not to be made here."""
    key = f"{parent.partition('/')[0]}/s{step.number}"
    kind, public = ("answer", ' data-ipyagent="answer"') if step.is_answer else ("step", "")
    thinking, waiting = step.thinking, step.waiting
    # As it was written while it comes, else as Markdown.
    more = reveal_prose(thinking.text) if thinking and step.is_streaming else ""
    thought = _thinking(thinking, is_growing=bool(more)) if thinking else ""
    if texts is None:
        texts = markdown_blocks(step.text, step.numbers) if step.text else ()
    blocks = [
        Block(key, parent, element("div", kind, "\n")),
        Block(f"{key}/u", key, "".join(map(_user_text, step.user_texts))),
        Block(f"{key}/n", key, _notes(step.notes) if step.notes else ""),
        Block(f"{key}/w", key, _waiting(waiting) if waiting else ""),
        Block(f"{key}/t", key, thought, more),
        Block(f"{key}/x", key, element("div", "markdown", "\n", public) if texts else ""),
    ]
    for place, text in enumerate(texts):
        blocks.append(Block(f"{key}/x/{place}", f"{key}/x", text))
    for place, each in enumerate(step.written):
        blocks.append(Block(f"{key}/w{place}", key, _call_in_pieces(each), reveal(each.text)))
    blocks.append(Block(f"{key}/i", key, _all_media(step.images) if step.images else ""))
    for place, call in enumerate(step.calls):
        name, media = f"{key}/c{place}", call.result.media if call.result else ()
        if not call.is_planned:
            blocks.append(Block(name, key, keep(name, call_html, call)))
            html = keep(f"{name}/m", _all_media, media) if media else ""
            blocks.append(Block(f"{name}/m", key, html))
    blocks.append(Block(f"{key}/z", key, note_html(step.facts) if step.facts else ""))
    return [each for each in blocks if each.html]


def _call_in_pieces(call: transcript.Fold) -> str:
    """Return a call that is coming in, without its arguments."""
    return element("div", "written", f"<p>{escape(call.title)}</p><pre><code></code></pre>")


def _waiting(waiting: transcript.Waiting) -> str:
    return text_element("p", "note ia-waiting", waiting.text)


def _user_text(text: transcript.UserText) -> str:
    lines = escape(reveal(text.text)).replace("\n", "<br>")
    label = element("span", "label", escape(text.label))
    return element(
        "blockquote", "user-text", f"<p>{label}: {lines}</p>", ' data-ipyagent="user-text"'
    )


def _thinking(thinking: transcript.Fold, *, is_growing: bool) -> str:
    """Return the model's thinking; while it grows, without its words."""
    text = "<p></p>" if is_growing else markdown_to_html(thinking.text)
    title, body = f"<em>{escape(thinking.title)}</em>", f'<div class="ia-markdown">{text}</div>'
    public = 'class="ia-thinking" data-ipyagent="thinking"'
    return details(title, body, public, is_open=thinking.is_open)


def call_html(call: transcript.Call) -> str:
    """Return a call: its line, and behind it all of it but its figures and tables."""
    name = escape(reveal(call.name))
    public = f'class="ia-tool" data-ipyagent="tool" data-tool="{name}" data-state="{call.status}"'
    return _line(public, _call_line(call), _call_body(call, name), is_open=call.is_open)


def _call_line(call: transcript.Call) -> str:
    """Return the line: icon, title, changes; how it was decided, what came of it, and its time.

    That a look was one, and times of less than a second, say nothing.
    """
    is_done = call.status is ToolStatus.SUCCESS and not call.is_dry
    title = escape(call.gist.title)
    title = f"<s>{title}</s>" if "taken back" in call.badge else title
    is_long = call.duration and not call.duration.startswith("0.")
    parts = [
        _icon(call.gist.kind) if is_done else _glyph(call),
        element("span", "summary", title),
        text_element("mark", "badge", call.badge),
        *map(_chip, call.gist.changes),
        _EMPTY if call.status is ToolStatus.RUNNING and not call.verdict else "",
        "" if call.verdict == "looked" else verdict_html(call.verdict),
        text_element("samp", "outcome", words.outcome_line(call) if call.outcome else ""),
        text_element("small", "duration", call.duration if is_long else ""),
    ]
    return " ".join(filter(None, parts))


_EMPTY: Final = '<em class="ia-decision"></em>'
"""The place of a verdict, which a page shows if the kernel is gone."""


def _icon(kind: transcript.Kind) -> str:
    return f'<span class="ia-glyph ia-{kind}">{_ICONS[kind]}</span>'


def _glyph(of: transcript.Call | transcript.PlanStep) -> str:
    return glyph_html(of.status, of.glyph, of.status_text)


def glyph_html(status: str, glyph: str, text: str) -> str:
    """Return the sign of a state that stands out."""
    return f'<span class="ia-glyph ia-{status}" title="{escape(text)}">{escape(glyph)}</span>'


def verdict_html(verdict: str) -> str:
    """Return how a call was decided, for its line; or ""."""
    return text_element("em", "decision", verdict)


def _chip(change: transcript.EffectLine) -> str:
    return element("code", f"chip ia-{change.change}", _change_text(change))


def _change_text(line: transcript.EffectLine) -> str:
    """Return the text of a change, in which a page can open the variable."""
    name = element("span", "name", escape(line.variable))
    return name + escape(line.text.removeprefix(line.variable))


def _call_body(call: transcript.Call, name: str) -> str:
    """Return all of a call; what is to be known of one that waits stands above its code."""
    is_asked = call.status is ToolStatus.AWAITING_APPROVAL
    preview, question = call.request.preview, call.question
    facts = words.join_facts([preview.caption if preview else "", call.duration])
    caption = words.join_facts([name, escape(facts)])
    if question:
        # The form has the choices.
        asked = text_element("p", "question", reveal(question.text))
        request = asked if is_asked else pre(words.question_text(question))
    else:
        request = _preview(preview) if preview else ""
        request += pre(words.arguments_text(call.request)) if call.request.shown else ""
        if is_asked and call.request.is_exact_folded:
            exact = json.dumps(call.request.arguments, indent=2, ensure_ascii=False)
            request += details("exactly what is sent", pre(exact), 'class="ia-exact"')
    above = [call.touches, call.concern] if is_asked else []
    remarks = ["" if is_asked else call.concern, *call.remarks, reveal(call.request.parse_error)]
    parts = [
        _effects(call.effects, with_media=is_asked) if call.effects else "",
        *[text_element("p", "concern", text) for text in above],
        element("p", "caption", caption),
        request,
        *[f"<p><em>{escape(text)}</em></p>" for text in remarks if text],
        *[_effect(each, "div") for each in call.gist.changes if each.diff],
        *map(pre, words.texts_beside_line(call)),
        *map(note_html, call.facts),
    ]
    if call.result and (text := call.result.for_model):
        parts.append(fold_html(text))
    return "\n".join(filter(None, parts))


def change_html(call: transcript.Call) -> str:
    """Return what would become of a cell, and why that is asked."""
    preview, source = call.request.preview, str(call.request.arguments.get("source") or "")
    if preview and preview.kind == "diff":
        # The cell is named by its place: of a single hunk the lines say enough.
        _, *hunks = re.split(r"^@@.*\n", preview.text, flags=re.MULTILINE)
        change = diff_html(hunks[0] if len(hunks) == 1 else preview.text)
    else:
        change = pre(source, preview.language if preview else "") or note_html("It is empty.")
    return change + text_element("p", "concern", call.concern)


def _preview(preview: transcript.Preview) -> str:
    return (
        diff_html(preview.text) if preview.kind == "diff" else pre(preview.text, preview.language)
    )


def _effects(effects: transcript.Effects, *, with_media: bool = False) -> str:
    """Return what a call would change, line by line, with diffs and what was put out."""
    lines = "".join(map(_effect, effects.lines))
    parts = [f"<p>{escape(reveal(effects.title))}</p>", f"<ul>{lines}</ul>" if lines else ""]
    if effects.shown:
        text = pre(effects.shown.output or effects.shown.error)
        media = _all_media(effects.shown.media) if with_media else ""
        parts.append(details(escape(effects.shown_title), text + media))
    return element("div", "effects", "".join(parts), ' data-ipyagent="effects"')


def _effect(line: transcript.EffectLine, tag: str = "li") -> str:
    change = "" if line.change == "other" else f'<b class="ia-{line.change}">{line.change}</b> '
    diff = diff_html(line.diff) if line.diff else ""
    return f"<{tag}>{change}{_change_text(line)}{diff}</{tag}>"


def _all_media(media: Iterable[transcript.Media]) -> str:
    return element("div", "media", "\n".join(map(media_html, media)))


def ending_html(ending: transcript.Ending) -> str:
    """Return why a run is not all that was asked for; that it failed stands out."""
    lines = with_inline_code(clean_output(ending.text)).replace("\n", "<br>")
    title = with_inline_code(clean_output(ending.title))
    is_error = ending.tone == "error"
    title = f"<strong>✗ {title}</strong>" if is_error else f"<em>{title}</em>"
    kind = "error-card" if is_error else "ending"
    return element("div", kind, f"{title}{'<br>' if lines else ''}{lines}")


def _footer(footer: transcript.Footer, model: str) -> str:
    facts = words.join_facts([*footer.facts, words.trace_text(footer)])
    title = words.join_facts([footer.duration, model, footer.numbers, "details"])
    body = "".join([*map(fold_html, footer.folds), note_html(facts)])
    is_open = any(each.is_open for each in footer.folds)
    kind = "ia-footer ia-doubtful" if footer.numbers else "ia-footer"
    return details(f"<small>{escape(title)}</small>", body, f'class="{kind}"', is_open=is_open)


def _notes(texts: Iterable[str]) -> str:
    return element("div", "notes", "".join(map(_own_note, texts)))


def _own_note(text: str) -> str:
    return element("p", "note", with_inline_code(reveal(text)))
