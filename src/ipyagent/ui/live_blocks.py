"""The blocks of a run that is on: a growing text, what only a page adds, and what has changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ipyagent.plaintext import plural, reveal_prose
from ipyagent.schema import ToolStatus
from ipyagent.ui import messages, transcript
from ipyagent.ui.blocks import (
    Block,
    begin_of_last_group,
    ending_html,
    glyph_html,
    list_blocks,
    step_blocks,
    verdict_html,
)
from ipyagent.ui.parts import element, pre
from ipyagent.ui.sanitize import markdown_blocks, with_formulas
from ipyagent.ui.transcribe.call import GLYPHS, source_of
from ipyagent.ui.transcribe.step import CUT_OFF, UNSENT

_ENDS: Final = {
    # Running calls may have happened, pending ones have not.
    ToolStatus.RUNNING: ToolStatus.UNKNOWN,
    ToolStatus.PENDING: ToolStatus.CANCELLED,
    ToolStatus.AWAITING_APPROVAL: ToolStatus.CANCELLED,
}


def _replace_in_calls() -> Iterator[tuple[str, str]]:
    """Yield selectors of what shows the state of an open call, each with what takes its place."""
    for before, after in _ENDS.items():
        line = f'.ia-tool[data-state="{before}"] > summary'
        verdict = GLYPHS[after][1] if after is ToolStatus.UNKNOWN else ""
        yield f"{line} > .ia-glyph", glyph_html(after, *GLYPHS[after])
        yield f"{line} > .ia-decision", verdict_html(verdict)


GONE: Final = messages.Gone(
    state="failed",
    states=_ENDS,
    replaced={
        ".ia-header > .ia-state": element("span", "state", "failed"),
        ".ia-unsent .ia-label": element("span", "label", UNSENT),
        **dict(_replace_in_calls()),
    },
    ending=ending_html(CUT_OFF),
)


_Order = dict[str, tuple[str, ...]]

_HEAD: Final = {"r/h", "r/n", "r/p"}


class LiveBlocks:
    """The blocks of a run as its pages have them.

    Steps that cannot change any more are settled: they cost nothing, however many they are.
    """

    def __init__(self) -> None:
        self._run_id = ""
        self._settled: tuple[transcript.Step, ...] = ()
        self._kept: dict[str, Block] = {}
        """The blocks of settled steps."""
        self._kept_order: _Order = {}
        self._blocks: dict[str, Block] = {}
        """All others."""
        self._order: _Order = {}
        self._steps: dict[int, tuple[transcript.Step, str, list[Block]]] = {}
        self._growing: dict[int, Prose] = {}
        self._parts: dict[str, tuple[tuple[object, ...], str]] = {}

    def update(self, drawn: transcript.Transcript, seq: int = 0) -> messages.Changes | None:
        """Draw the run as it is now, and return what has changed, as the message `seq`."""
        settled, is_over = len(self._settled), drawn.is_over
        if is_over or drawn.steps[:settled] != self._settled:
            self._blocks, self._order = self._kept | self._blocks, self._kept_order | self._order
            self._settled, self._kept, self._kept_order, settled = (), {}, {}, 0
        blocks = self._draw(drawn, settled, is_over=is_over)
        order = self._order_of(blocks.values())
        moved = {parent: keys for parent, keys in order.items() if self._order.get(parent) != keys}
        changes = _compare(self._blocks, blocks, moved, seq)
        self._blocks, self._order = blocks, order
        if not is_over:
            self._keep_settled(drawn.steps)
        has_changed = changes.set or changes.more or changes.drop or moved
        return changes if has_changed else None

    def snapshot(self, seq: int, left: float | None = None) -> messages.Snapshot:
        """Return all blocks; `left` are the seconds until the next try."""
        blocks = [*(self._kept | self._blocks).values()]
        if left is not None:
            blocks = [_with_time_left(each, left) for each in blocks]
        return messages.Snapshot(
            seq=seq,
            set=tuple(map(_message, blocks)),
            order=self._kept_order | self._order,
            gone=GONE,
        )

    def _order_of(self, blocks: Iterable[Block]) -> _Order:
        """Return the keys of the blocks in each block; settled steps come after the head."""
        order: dict[str, list[str]] = {}
        for block in blocks:
            order.setdefault(block.parent, []).append(block.key)
        outer = order.get("r", [])
        head = len(_HEAD.intersection(outer))
        outer[head:head] = self._kept_order.get("r", ())
        return {parent: tuple(keys) for parent, keys in order.items()}

    def _keep_settled(self, steps: tuple[transcript.Step, ...]) -> None:
        """Keep the blocks of all steps before the last group."""
        begin = begin_of_last_group(steps)
        outer = list(self._kept_order.get("r", ()))
        for step in steps[len(self._settled) : begin]:
            _, parent, blocks = self._steps.pop(step.number)
            if parent != "r" and parent not in self._kept:
                self._keep(parent)
            outer.append(parent if parent != "r" else blocks[0].key)
            for block in blocks:
                self._keep(block.key)
        self._settled = steps[:begin]
        self._kept_order["r"] = tuple(dict.fromkeys(outer))

    def _keep(self, key: str) -> None:
        self._kept[key] = self._blocks.pop(key)
        self._parts.pop(key, None)
        if key in self._order:
            self._kept_order[key] = self._order.pop(key)

    def _draw(self, drawn: transcript.Transcript, start: int, *, is_over: bool) -> dict[str, Block]:
        """Return the blocks by their keys, with what only a page adds to them."""
        self._run_id = drawn.run_id
        listed = list_blocks(drawn, self._draw_step, start, self._keep_part)
        blocks = {each.key: each for each in listed}
        plan, unsent = drawn.plan, blocks.get("r/u")
        if not is_over:
            is_new, began = not drawn.header.facts, drawn.header.started_at
            progress = messages.Progress(started_at=began, is_new=is_new)
            blocks["r/h"] = blocks["r/h"]._replace(own=progress)
        if plan and (plan.approval or plan.late):
            html = '<div class="ia-form"></div>'
            blocks["r/p/a"] = Block("r/p/a", "r/p", html, own=asked_plan(plan, drawn.run_id))
        if drawn.say:
            if unsent:
                blocks["r/u"] = unsent._replace(own=messages.Unsent(texts=drawn.unsent))
            say = messages.Steering(**drawn.say.model_dump())
            blocks["r/say"] = Block("r/say", "r", '<div class="ia-say"></div>', own=say)
        return blocks

    def _keep_part(self, name: str, draw: Callable[..., str], *of: object) -> str:
        """Return what is drawn of the arguments; of the same ones it is drawn once."""
        known = self._parts.get(name)
        if known is None or known[0] != of:
            known = self._parts[name] = of, draw(*of)
        return known[1]

    def _draw_step(self, step: transcript.Step, parent: str) -> list[Block]:
        known = self._steps.get(step.number)
        if known is None or known[0] is not step or known[1] != parent:
            known = step, parent, self._step(step, parent)
            self._steps[step.number] = known
        return known[2]

    def _step(self, step: transcript.Step, parent: str) -> list[Block]:
        texts, tail, blocks = None, "", list[Block]()
        if step.is_streaming:
            prose = self._growing.setdefault(step.number, Prose())
            texts, tail = prose.update(step.text)
        else:
            self._growing.pop(step.number, None)
        key = f"r/s{step.number}"
        calls = {f"{key}/c{place}": call for place, call in enumerate(step.calls)}
        growing = f"{key}/x/{len(texts or ()) - 1}"
        asked = {each: call.approval.id for each, call in calls.items() if call.approval}
        for block in step_blocks(step, parent, texts, self._keep_part):
            if len(asked) > 1 and block.key == next(iter(asked)):
                review = messages.Review(approvals=tuple(asked.values()))
                html = f'<div class="ia-review">{plural(len(asked), "change")}</div>'
                blocks.append(Block(f"{key}/r", key, html, own=review))
            if call := calls.get(block.key):
                source = source_of(call)
                own = messages.Source(text=source) if source else None
                blocks += block._replace(own=own), *_beside_call(block.key, call, self._run_id)
            elif step.waiting and step.waiting.seconds and block.key == f"{key}/w":
                seconds = step.waiting.seconds
                blocks.append(block._replace(own=messages.Countdown(seconds=seconds)))
            else:
                is_growing = tail and block.key == growing
                blocks.append(block._replace(more=tail) if is_growing else block)
        return blocks


def _compare(
    old: dict[str, Block], new: dict[str, Block], moved: _Order, seq: int
) -> messages.Changes:
    """Return what is other in new blocks; a text that goes on is only added to."""
    changed, more = [], []
    for key, block in new.items():
        before = old.get(key)
        if before is block or (before and before[2:] == block[2:]):  # it may have moved
            continue
        if before and _goes_on(before, block):
            more.append(messages.Addition(key=key, text=block.more[len(before.more) :]))
        else:
            changed.append(_message(block))
    gone = tuple([key for key in old if key not in new])
    return messages.Changes(seq=seq, set=tuple(changed), order=moved, more=tuple(more), drop=gone)


def _goes_on(old: Block, new: Block) -> bool:
    is_same = (old.html, old.own) == (new.html, new.own)
    return is_same and bool(old.more) and new.more.startswith(old.more)


def _with_time_left(block: Block, left: float) -> Block:
    is_countdown = isinstance(block.own, messages.Countdown)
    return block._replace(own=messages.Countdown(seconds=left)) if is_countdown else block


def _message(block: Block) -> messages.Drawn:
    key, _, html, more, own = block
    return messages.Drawn(key=key, html=html, more=more, own=own)


def _beside_call(key: str, call: transcript.Call, run_id: str) -> Iterator[Block]:
    """Yield the form of a call that waits, or that it came too late; and the end of its output."""
    if call.approval or call.late:
        parent = key if call.approval else key.rpartition("/")[0]
        own = asked_call(call, run_id)
        yield Block(f"{key}/a", parent, '<div class="ia-form"></div>', own=own)
    if call.live and call.status is ToolStatus.RUNNING:
        tail = f'<div class="ia-tail">{pre(call.live)}</div>'
        yield Block(f"{key}/l", key.rpartition("/")[0], tail)


def asked_call(call: transcript.Call, run_id: str) -> messages.Asked:
    """Return what a form about a call needs."""
    return messages.Asked(
        run_id=run_id,
        about=call.name,
        approval=call.approval,
        question=call.question,
        late=call.late,
        calls=(_asked_call(call),),
    )


def asked_plan(plan: transcript.Plan, run_id: str) -> messages.Asked:
    """Return what a form about a plan needs; one that no cell asks about runs as it is."""
    steps = plan.steps if plan.approval and plan.approval.id else ()
    return messages.Asked(
        run_id=run_id,
        about="this plan",
        approval=plan.approval,
        late=plan.late,
        calls=tuple([_asked_call(each, each.note) for each in steps]),
    )


def _asked_call(call: transcript.Call | transcript.PlanStep, note: str = "") -> messages.AskedCall:
    given, preview = call.request.arguments, call.request.preview
    code = None
    if preview is None:  # as for a step of a plan
        code = "code" if isinstance(given.get("code"), str) else None
    elif preview.kind == "code":
        code = next((name for name, each in given.items() if each == preview.text), None)
    return messages.AskedCall(
        id=call.id,
        name=call.name,
        note=note,
        arguments=given,
        code=code,
        language=preview.language if preview else "python",
    )


# A growing Markdown text --------------------------------------------------------------------------

_SHORT, _MIDDLE, _GROWN = 400, 1_500, 1 / 8
"""An open block up to the first length is laid out again at each sign of Markdown, up to the
second with each line, a longer one after growing by this fraction: so all work is linear."""

_MARK = len("10. x")

_WORDS = re.compile(r"""[\w ,;.'"?!:%]*""")
"""Text that looks the same as Markdown."""

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

_OUTLINE = with_formulas(MarkdownIt("commonmark", {"html": False}).enable("table"))
_OUTLINE.core.ruler.enableOnly(["normalize", "block"])
"""A fast parser that finds only the outermost blocks."""


class Prose:
    """A growing Markdown text: complete blocks are made once, the last one now and then."""

    def __init__(self) -> None:
        self._begin_again()

    def _begin_again(self) -> None:
        self._text = ""
        self._sealed: tuple[str, ...] = ()
        self._begin = 0
        """Where the open block begins."""
        self._open: tuple[str, ...] = ()
        self._drawn = 0
        """Where the text begins that is not in the open block."""

    def update(self, text: str) -> tuple[tuple[str, ...], str]:
        """Return the blocks of a text that goes on, and the plain text behind them."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if not text.startswith(self._text):
            self._begin_again()
        added = text[len(self._text) :]
        self._text = text
        if self._is_due(added):
            self._lay_out()
        return (*self._sealed, *self._open), reveal_prose(text[self._drawn :])

    def _is_due(self, added: str) -> bool:
        if _WORDS.fullmatch(added):
            return self._drawn == 0 and bool(added)
        length, drawn = len(self._text) - self._begin, self._drawn - self._begin
        is_short = length < (_MIDDLE if "\n" in added else _SHORT)
        return is_short or length - drawn > length * _GROWN or self._has_fence(added)

    def _has_fence(self, added: str) -> bool:
        """Return whether a line that is complete now may begin or end fenced code."""
        line = self._text.rfind("\n", 0, len(self._text) - len(added)) + 1
        return "\n" in added and _FENCE.search(self._text, line) is not None

    def _lay_out(self) -> None:
        """Seal all blocks but the last, and draw that one as far as it is there."""
        outline = _outline(self._text[self._begin :])
        if outline.begin:
            begin = self._begin + outline.begin
            self._sealed += markdown_blocks(self._text[self._begin : begin])
            self._begin = begin
        rest = self._text[self._begin :]
        self._open = markdown_blocks(rest, is_open=True)
        # The space behind words is not drawn.
        self._drawn = self._begin + len(rest if outline.is_code else rest.rstrip())


class _Outline(NamedTuple):
    """The offset at which the open block begins, and whether that is code."""

    begin: int
    is_code: bool


def _outline(text: str) -> _Outline:
    tokens = [
        token
        for token in _OUTLINE.parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map
    ]
    if not tokens:
        return _Outline(0, is_code=False)
    offsets = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    starts = [offsets[token.map[0]] for token in tokens if token.map]
    last, (first, after) = tokens[-1], tokens[-1].map or (0, 0)
    if _is_closed(last, text[offsets[after - 1] : offsets[after]], after - first):
        return _Outline(offsets[after], is_code=False)
    # A block that begins may become a further item of the list before it.
    is_mark = len(text[starts[-1] :].strip()) <= _MARK
    begin = starts[-2:][0] if is_mark else starts[-1]
    return _Outline(begin, is_code=last.type in ("fence", "code_block"))


def _is_closed(token: Token, last_line: str, lines: int) -> bool:
    """Return whether it is fenced code whose last line, which is whole, ends it."""
    if token.type != "fence" or lines < 2:
        return False
    fence = re.escape(token.markup[0]) + f"{{{len(token.markup)},}}"
    return re.fullmatch(rf" {{0,3}}{fence}[ \t]*\n", last_line) is not None
