"""The blocks of a run that is on: what only a page adds to them, and what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ipyagent.plaintext import plural
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
from ipyagent.ui.parts import pre
from ipyagent.ui.prose import Prose
from ipyagent.ui.transcribe.call import GLYPHS, source_of
from ipyagent.ui.transcribe.step import CUT_OFF, UNSENT


def _mark(status: ToolStatus) -> messages.Mark:
    """Return the marks of a call that ends so."""
    verdict = GLYPHS[status][1] if status is ToolStatus.UNKNOWN else ""
    glyph = glyph_html(status, *GLYPHS[status])
    return messages.Mark(status=status, glyph=glyph, verdict=verdict_html(verdict))


GONE: Final = messages.Gone(
    state="failed",
    state_text="failed",
    ending=ending_html(CUT_OFF),
    unsent=UNSENT,
    # Running calls may have happened, pending ones have not.
    marks={
        ToolStatus.RUNNING: _mark(ToolStatus.UNKNOWN),
        ToolStatus.PENDING: _mark(ToolStatus.CANCELLED),
        ToolStatus.AWAITING_APPROVAL: _mark(ToolStatus.CANCELLED),
    },
)


_Order = dict[str, tuple[str, ...]]

_HEAD: Final = {"r/h", "r/n", "r/p"}


class LiveBlocks:
    """The blocks of a run as its pages have them.

    Steps that cannot change any more are settled: they cost nothing, however many they are.
    """

    def __init__(self) -> None:
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

    def update(self, drawn: transcript.Transcript) -> messages.Changes | None:
        """Draw the run as it is now, and return what has changed, as the message 0."""
        settled = len(self._settled)
        if drawn.is_over or drawn.steps[:settled] != self._settled:
            self._blocks, self._order = self._kept | self._blocks, self._kept_order | self._order
            self._settled, self._kept, self._kept_order, settled = (), {}, {}, 0
        blocks = {each.key: each for each in self._list(drawn, settled)}
        order = self._order_of(blocks.values())
        changes = _compare(self._blocks, blocks)
        moved = {parent: keys for parent, keys in order.items() if self._order.get(parent) != keys}
        self._blocks, self._order = blocks, order
        if not drawn.is_over:
            self._keep_settled(drawn.steps)
        if changes.set or changes.more or changes.drop or moved:
            return changes.model_copy(update={"order": moved})
        return None

    def snapshot(
        self, seq: int, drawn: transcript.Transcript | None, left: float | None = None
    ) -> messages.Snapshot:
        """Return all blocks; `drawn` is the run, `left` the seconds until the next try."""
        blocks = (self._kept | self._blocks).values()
        return messages.Snapshot(
            seq=seq,
            run_id=drawn.run_id if drawn else "",
            set=tuple([_message(_with_time_left(each, left)) for each in blocks]),
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

    def _list(self, drawn: transcript.Transcript, start: int) -> Iterator[Block]:
        for block in list_blocks(drawn, self._draw_step, start, self._keep_part):
            match block.key:
                case "r/h" if not drawn.is_over:
                    is_new = not drawn.header.facts
                    began = drawn.header.started_at
                    progress = messages.Progress(started_at=began, is_new=is_new)
                    yield block._replace(own=progress)
                case "r/p" if drawn.plan:
                    yield block
                    if drawn.plan.approval or drawn.plan.late:
                        form = asked_plan(drawn.plan)
                        yield Block("r/p/a", "r/p", '<div class="ia-form"></div>', own=form)
                case "r/u" if drawn.say:
                    yield block._replace(own=messages.Unsent(texts=drawn.unsent))
                case _:
                    yield block
        if drawn.say:
            say = messages.Steering(**dict(drawn.say))
            yield Block("r/say", "r", '<div class="ia-say"></div>', own=say)

    def _keep_part(self, name: str, draw: Callable[..., str], *of: object) -> str:
        """Return what is drawn of the arguments; of the same ones it is drawn once."""
        known = self._parts.get(name)
        if known is None or known[0] != of:
            known = self._parts[name] = of, draw(*of)
        return known[1]

    def _draw_step(self, step: transcript.Step, parent: str) -> list[Block]:
        known = self._steps.get(step.number)
        if known is None or known[0] is not step or known[1] != parent:
            known = step, parent, list(self._step(step, parent))
            self._steps[step.number] = known
        return known[2]

    def _step(self, step: transcript.Step, parent: str) -> Iterator[Block]:
        texts, tail = None, ""
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
                yield Block(f"{key}/r", key, html, own=review)
            if call := calls.get(block.key):
                source = source_of(call)
                yield block._replace(own=messages.Source(text=source) if source else None)
                yield from _beside_call(block.key, call)
            elif step.waiting and step.waiting.seconds and block.key == f"{key}/w":
                seconds = step.waiting.seconds
                yield block._replace(own=messages.Countdown(seconds=seconds))
            else:
                yield block._replace(more=tail) if tail and block.key == growing else block


def _compare(old: dict[str, Block], new: dict[str, Block]) -> messages.Changes:
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
    return messages.Changes(seq=0, set=tuple(changed), more=tuple(more), drop=gone)


def _goes_on(old: Block, new: Block) -> bool:
    is_same = (old.html, old.own) == (new.html, new.own)
    return is_same and bool(old.more) and new.more.startswith(old.more)


def _with_time_left(block: Block, left: float | None) -> Block:
    if left is None or not isinstance(block.own, messages.Countdown):
        return block
    return block._replace(own=messages.Countdown(seconds=left))


def _message(block: Block) -> messages.Drawn:
    key, _, html, more, own = block
    return messages.Drawn(key=key, html=html, more=more, own=own)


def _beside_call(key: str, call: transcript.Call) -> Iterator[Block]:
    """Yield the form of a call that waits, or that it came too late; and the end of its output."""
    if call.approval or call.late:
        parent = key if call.approval else key.rpartition("/")[0]
        yield Block(f"{key}/a", parent, '<div class="ia-form"></div>', own=asked_call(call))
    if call.live and call.status is ToolStatus.RUNNING:
        tail = f'<div class="ia-tail">{pre(call.live)}</div>'
        yield Block(f"{key}/l", key.rpartition("/")[0], tail)


def asked_call(call: transcript.Call) -> messages.Asked:
    """Return what a form about a call needs."""
    return messages.Asked(
        approval=call.approval,
        question=call.question,
        late=call.late,
        calls=(messages.AskedCall(id=call.id, name=call.name, request=call.request),),
    )


def asked_plan(plan: transcript.Plan) -> messages.Asked:
    """Return what a form about a plan needs; one that no cell asks about runs as it is."""
    calls = (
        messages.AskedCall(id=each.id, name=each.name, note=each.note, request=each.request)
        for each in (plan.steps if plan.approval and plan.approval.id else ())
    )
    return messages.Asked(approval=plan.approval, is_plan=True, late=plan.late, calls=tuple(calls))
