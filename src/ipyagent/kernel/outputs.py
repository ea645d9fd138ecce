"""Printed and displayed output, in order, as the parts of a `ToolResult`.

A caller that stops waiting for a call reads its output so far.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Literal

from ipyagent.json_types import JsonDict
from ipyagent.kernel import displays
from ipyagent.kernel.displays import PageBundle
from ipyagent.kernel.streams import DescriptorOutput
from ipyagent.plaintext import image_text, strip_escapes
from ipyagent.schema import Display, ImageContent, ToolResult
from ipyagent.schema.tables import distinct
from ipyagent.values.describe import compact_value

Channel = Literal["stdout", "stderr", "display"]
PRINTED: tuple[Channel, ...] = ("stdout", "stderr")
_MIXED = "[stdout and stderr]"
CHANNEL_MARKS = (_MIXED, *(f"[{channel}]" for channel in PRINTED))
_FEW = 3
"""Marks of a change of the channel; where it changes more often, one at the beginning tells it."""

KEPT = 2_000_000
"""Characters kept of all text, beginning and end: code may print gigabytes."""
PIECE = KEPT // 32
HEAD = 16  # pieces
RECENT = 65_536
"""Characters of which the last lines are shown while code runs."""
MAX_IMAGES = 20
MAX_DISPLAYS = 50
MAX_TABLES = 50
MAX_DISPLAY = 1_000_000
"""Characters of one display; of a larger one only the text is kept."""

_RICH = ("text/html", "text/markdown", "text/latex", "image/svg+xml", "application/json")
_IMAGES = ("image/png", "image/jpeg")


class TableBundle(JsonDict):
    """The bundle of a displayed table, with the table itself."""

    def __init__(self, bundle: JsonDict, table: object) -> None:
        super().__init__(bundle)
        self.table = table


class Piece:
    """A stretch of one channel's text, or one display."""

    def __init__(self, channel: Channel, text: str = "", display_id: str | None = None) -> None:
        self.channel, self.id = channel, display_id
        self.size = 0
        self.image: ImageContent | None = None
        self.display: Display | None = None
        self.table: object = None
        self.brief: str | None = None
        self.page: PageBundle | None = None
        self.is_published = False
        self._buffer = io.StringIO()
        self.write(text)

    def write(self, text: str) -> None:
        """Add text."""
        self._buffer.write(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """All text so far."""
        return self._buffer.getvalue()


class Outputs:
    """Collects outputs, with limits on text, images, displays and tables.

    `place` is where the user sees what only a page draws; "" if there is no page. `clean` looks
    for secrets among the variables, and hides them in it.
    """

    place = ""

    def __init__(self) -> None:
        self.clean: Callable[[JsonDict], JsonDict] = lambda data: data
        self.find_kind: Callable[[JsonDict], str | None] = displays.page_kind
        """Names what only a page draws of a bundle."""
        self._reading = threading.RLock()
        self.descriptors = {
            channel: DescriptorOutput(number, self.read_descriptors, self._reading)
            for number, channel in enumerate(PRINTED, 1)
        }
        self._told = ""
        self._forget()

    def write(self, channel: Channel, text: str) -> None:
        """Add printed text."""
        self._read_earlier()
        self._add_text(channel, text)

    def _add_text(self, channel: Channel, text: str) -> None:
        self._make_room()
        for start in range(0, len(text), PIECE):
            part = text[start : start + PIECE]
            last = self._pieces[-1] if self._pieces else None
            if last is None or last.channel != channel or last.size + len(part) > PIECE:
                self._pieces.append(last := Piece(channel))
            last.write(part)
            self._chars += len(part)
            self._drop_the_middle()

    def _read_earlier(self) -> None:
        """Add what others than Python's streams have put out before, written yet or not."""
        for descriptor in self.descriptors.values():
            descriptor.flush()
        self.read_descriptors()

    def read_descriptors(self) -> None:
        """Add what others than Python's streams have written meanwhile."""
        for channel, descriptor in self.descriptors.items():
            if descriptor.is_open and not descriptor.is_worker:
                with self._reading:
                    if text := descriptor.read():
                        self._add_text(channel, text)

    def show(
        self,
        bundle: JsonDict,
        display_id: str | None = None,
        metadata: JsonDict | None = None,
    ) -> None:
        """Add a rich output."""
        self._read_earlier()
        self._make_room()
        piece = self._display(bundle, display_id, metadata)
        self._pieces.append(piece)
        self._chars += piece.size
        self._drop_the_middle()

    def value(self, bundle: JsonDict, metadata: JsonDict | None = None) -> None:
        """Add the value of the last expression."""
        self.show(bundle, None, metadata)

    def error(self, name: str, text: str, trace: str) -> None:
        """Add an error."""
        self.show({"text/plain": trace})

    def abbreviate(self, text: str) -> None:
        """Give the model this text for the newest output."""
        if self._pieces and self._pieces[-1].page is None:
            self._pieces[-1].brief = text

    def update(
        self,
        bundle: JsonDict,
        display_id: str | None,
        metadata: JsonDict | None = None,
    ) -> bool:
        """Replace the outputs with that display id; return False if there are none."""
        found = [i for i, piece in enumerate(self._pieces) if display_id and piece.id == display_id]
        for i in found:
            before = self._pieces[i].size
            self._pieces[i] = self._display(bundle, display_id, metadata)
            self._chars += self._pieces[i].size - before
        return bool(found)

    def clear(self, wait: bool = False) -> None:
        """Clear everything so far: at once, or when something new arrives."""
        if wait:
            self._clear_next = True
        else:
            self._forget()

    def recent_text(self) -> str | None:
        """Return the end of the raw text, from any thread; None if it is as it was last time.

        By then the secrets that code has among its variables are known.
        """
        pieces, size = list(self._pieces), 0
        for at in reversed(range(len(pieces))):
            if (size := size + pieces[at].size) >= RECENT:
                pieces = pieces[at:]
                break
        pieces = [piece for piece in pieces if piece.page is None]  # the page shows these
        # Displays, and what the other channel says, stand on lines of their own.
        texts = (text.removesuffix("\n") for _, text in _join_pieces(pieces, brief=False) if text)
        text = "\n".join(texts)[-RECENT:]
        if text == self._told:
            return None
        self.clean({})
        self._told = text
        return text

    @property
    def page_bundles(self) -> list[PageBundle]:
        """The bundles that belong beside the card, without secrets."""
        return [self._without_secrets(page) for _, page in self._pages()]

    def publish(self, show: Callable[[PageBundle], None], *, only_widgets: bool = False) -> None:
        """Show the page each bundle that it has not got; widgets alone while the code runs."""
        for piece, page in self._pages():
            is_final = displays.page_kind(page.data) == "widget" and page.display_id is None
            if not piece.is_published and (is_final or not only_widgets):
                piece.is_published = True
                show(self._without_secrets(page))

    def _pages(self) -> list[tuple[Piece, PageBundle]]:
        return [(piece, piece.page) for piece in self._pieces if piece.page is not None]

    def _without_secrets(self, bundle: PageBundle) -> PageBundle:
        data, metadata = self.clean(bundle.data), self.clean(bundle.metadata)
        return replace(bundle, data=data, metadata=metadata)

    def text(self) -> str:
        """Return all text in order, without terminal escapes; text from stderr is marked."""
        return self._join_text(list(self._pieces), brief=False)

    def text_for_model(self) -> str | None:
        """Return the text with brief forms of errors and values; None if there are none."""
        pieces = list(self._pieces)
        if all(piece.brief is None for piece in pieces):
            return None
        return self._join_text(pieces, brief=True)

    def _join_text(self, pieces: list[Piece], *, brief: bool) -> str:
        # A copy of the pieces: code may still print in another thread.
        if not self._dropped:
            return _text(pieces, brief=brief)
        gap = f"[… {self._dropped:,} characters were not kept …]"
        halves = (_text(half, brief=brief) for half in (pieces[:HEAD], pieces[HEAD:]))
        return f"\n{gap}\n".join(halves)

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """The images in order, each once."""
        return tuple({p.image.data: p.image for p in list(self._pieces) if p.image}.values())

    @property
    def displays(self) -> tuple[Display, ...]:
        """The other rich outputs in order, each with the number of images before it."""
        displays, seen = [], set[str]()
        for piece in list(self._pieces):
            if piece.display:
                displays.append(piece.display.model_copy(update={"images_before": len(seen)}))
            if piece.image:
                seen.add(piece.image.data)
        return tuple(displays)

    @property
    def frames(self) -> tuple[object, ...]:
        """The live tables that were displayed, in order, each object once."""
        return distinct(p.table for p in list(self._pieces) if p.table is not None)

    def _forget(self) -> None:
        self._pieces: list[Piece] = []
        self._chars = self._dropped = 0
        self._clear_next = False

    def _make_room(self) -> None:
        if self._clear_next:
            self._forget()

    def _drop_the_middle(self) -> None:
        while self._chars > KEPT and len(self._pieces) > HEAD + 1:
            rest = range(HEAD, len(self._pieces))
            size = self._pieces.pop(next((i for i in rest if not self._pieces[i].page), HEAD)).size
            self._chars -= size
            self._dropped += size

    def _display(
        self, bundle: JsonDict, display_id: str | None, metadata: JsonDict | None
    ) -> Piece:
        kind = self.find_kind(bundle)
        if kind and self.place and len(self.displays) < MAX_DISPLAYS:
            words = strip_escapes(displays.describe_page_bundle(bundle, kind))
            piece = Piece("display", words[:PIECE], display_id)
            kept = {} if displays.IN_CARDS & bundle.keys() else _rich_texts(bundle)
            label = f"[{kind}, shown {self.place}]"
            piece.display = Display(data=kept | {"text/plain": label}, beside=True)
            about = displays.as_json({"json": metadata or {}})["json"]
            piece.page = PageBundle(displays.publishable(bundle, kind), about, display_id)
            return piece
        mime = next((mime for mime in _IMAGES if bundle.get(mime)), None)
        image = displays.as_image(bundle[mime]) if mime and len(self.images) < MAX_IMAGES else None
        words = _in_words(bundle, image, kind)
        if kind and image is None and (self.place or kind == "widget" or not words):
            full = f"[{kind}, not shown: there are {MAX_DISPLAYS} displays already]"
            absence = full if self.place else displays.explain_absence(kind)
            words = "\n".join(filter(None, [words, absence]))
        rich = _rich(bundle) if len(self.displays) < MAX_DISPLAYS else None
        runs = "application/javascript" in bundle and not displays.IN_CARDS & bundle.keys()
        if not runs and image is None and rich:
            runs = displays.only_runs(rich.data.get("text/html", ""))
        if runs and image is None:
            rich, words = None, "\n".join(filter(None, [words, displays.NOT_RUN]))
        piece = Piece("display", words[:PIECE], display_id)
        piece.image, piece.display = image, rich
        if isinstance(bundle, TableBundle) and len(self.frames) < MAX_TABLES:
            piece.table = bundle.table
            piece.brief = _brief(bundle.table, piece.text)
        return piece


def _brief(table: object, plain: str) -> str | None:
    try:
        brief = compact_value(table, plain)
    except Exception:  # a library's own object can be broken
        return None
    return brief and strip_escapes(brief)


def _text(pieces: list[Piece], *, brief: bool) -> str:
    blocks: list[str] = []
    marks: set[int] = set()
    before = "stdout"
    for channel, text in _join_pieces(pieces, brief=brief):
        cleaned = strip_escapes(text).rstrip("\n")
        if not cleaned:
            continue
        if channel not in ("display", before):
            marks.add(len(blocks))
            blocks.append(f"[{channel}]")
            before = channel
        blocks.append(cleaned)
    if len(marks) > _FEW:
        blocks = [_MIXED, *(block for at, block in enumerate(blocks) if at not in marks)]
    return "\n".join(blocks)


def _join_pieces(pieces: list[Piece], *, brief: bool) -> list[tuple[Channel, str]]:
    """Return each display, and each stretch of one channel.

    Of a progress bar that stderr draws again after other output only the last state is left.
    """
    joined: list[tuple[Channel, list[str]]] = []
    bar: list[str] = []
    for piece in pieces:
        text = piece.brief if brief and piece.brief is not None else piece.text
        if not joined or piece.channel == "display" or joined[-1][0] != piece.channel:
            joined.append((piece.channel, []))
            if piece.channel == "stderr":
                if text.startswith("\r"):
                    above, newline, _ = "".join(bar).rpartition("\n")
                    bar[:] = [above + newline]
                bar = joined[-1][1]
        joined[-1][1].append(text)
    return [(channel, "".join(texts)) for channel, texts in joined]


def _rich(bundle: JsonDict) -> Display | None:
    rich = _rich_texts(bundle)
    if not rich:
        return None
    plain = bundle.get("text/plain")
    return Display(data=rich | ({"text/plain": strip_escapes(_as_text(plain))} if plain else {}))


def _rich_texts(bundle: JsonDict) -> dict[str, str]:
    texts = {mime: _as_text(bundle[mime]) for mime in _RICH if bundle.get(mime)}
    return {mime: text for mime, text in texts.items() if len(text) <= MAX_DISPLAY}


def _in_words(bundle: JsonDict, image: ImageContent | None, kind: str | None) -> str:
    if image is not None:
        return image_text(image.width, image.height)
    texts = (bundle.get(mime) for mime in ("text/plain", "text/markdown", "text/latex"))
    found = [_as_text(text) for text in texts if text]
    words = next((text for text in found if not text.startswith(displays.NAMES_OF_OBJECTS)), "")
    words = words or next(iter(found), "")
    return words or (f"[{', '.join(map(str, bundle))}]" if bundle and not kind else "")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=repr)


Recent = Callable[[], str | None]
"""Returns the end of a call's raw text, from any thread; None if it is as it was last time."""

_current: ContextVar[PartialOutput | None] = ContextVar("partial", default=None)


class PartialOutput:
    """A place where a call's recorder leaves ways to read its output at any time.

    `recent` returns the end of it, if that has changed; `job` is its job on the main thread, if
    there is one.
    """

    def __init__(self) -> None:
        self._read: Callable[[], ToolResult] | None = None
        self.recent: Recent = lambda: None
        self.job: Future[object] | None = None

    def result(self) -> ToolResult:
        """Return the output so far, from any thread."""
        return self._read() if self._read else ToolResult()

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the offers made within this context."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def offer(
        self, read: Callable[[], ToolResult], recent: Recent, job: Future[object] | None
    ) -> None:
        """Set how to read it."""
        self._read, self.recent, self.job = read, recent, job


def offer_output(
    read: Callable[[], ToolResult], recent: Recent, job: Future[object] | None = None
) -> None:
    """Set how the output of the current call is read, if a caller waits for it."""
    if (partial := _current.get()) is not None:
        partial.offer(read, recent, job)


def output_so_far(outputs: Outputs) -> ToolResult:
    """Return the output until now: prints, figures, displays."""
    outputs.read_descriptors()
    return ToolResult(
        output=outputs.text(),
        images=outputs.images,
        displays=outputs.displays,
        frames=outputs.frames,
    )


CELL_ROOM = 10_000_000
"""Characters that a cell's outputs may have; more is named, not kept."""


class CellOutputs(Outputs):
    """Collects nbformat 4 outputs beside those for the model. `number` is the cell's."""

    place = "in its cell"

    def __init__(self, number: int | None) -> None:
        self._number = number
        super().__init__()

    def cell(self) -> list[JsonDict]:
        """Return the outputs in nbformat."""
        return [{k: v for k, v in each.items() if k != _ID} for each in self._outputs]

    def _add_text(self, channel: Channel, text: str) -> None:
        super()._add_text(channel, text)
        last = self._outputs[-1] if self._outputs else {}
        if last.get("name") != channel:
            last = self._keep({"output_type": "stream", "name": channel, "text": ""}, 0)
        if self._fits(len(text)):
            last["text"] += text

    def show(
        self, bundle: JsonDict, display_id: str | None = None, metadata: JsonDict | None = None
    ) -> None:
        """Add a rich output."""
        super().show(bundle, display_id, metadata)
        output = {"output_type": "display_data", _ID: display_id}
        self._keep_bundle(output, bundle, metadata)

    def value(self, bundle: JsonDict, metadata: JsonDict | None = None) -> None:
        """Add the value of the last expression."""
        super().show(bundle, None, metadata)
        output = {"output_type": "execute_result", "execution_count": self._number}
        self._keep_bundle(output, bundle, metadata)

    def error(self, name: str, text: str, trace: str) -> None:
        """Add an error."""
        super().show({"text/plain": trace})
        lines = strip_escapes(trace).split("\n")
        raised = {"output_type": "error", "ename": name, "evalue": text, "traceback": lines}
        self._keep(raised, len(trace))

    def update(
        self, bundle: JsonDict, display_id: str | None, metadata: JsonDict | None = None
    ) -> bool:
        """Replace the output with that display id; return False if there is none."""
        for output in self._outputs:
            if display_id is not None and output.get(_ID) == display_id:
                output |= {"data": displays.as_json(bundle), "metadata": metadata or {}}
        return super().update(bundle, display_id, metadata)

    def _pages(self) -> list[tuple[Piece, PageBundle]]:
        """Return nothing: the cell holds them."""
        return []

    def _forget(self) -> None:
        super()._forget()
        self._outputs: list[JsonDict] = []
        self._room = CELL_ROOM

    def _keep_bundle(self, output: JsonDict, bundle: JsonDict, metadata: JsonDict | None) -> None:
        data = displays.as_json(bundle)
        self._keep(
            output | {"data": data, "metadata": metadata or {}},
            sum(len(value) if isinstance(value, str) else 1_000 for value in data.values()),
        )

    def _keep(self, output: JsonDict, size: int) -> JsonDict:
        if self._fits(size):
            self._outputs.append(output)
        return output

    def _fits(self, size: int) -> bool:
        """Return whether there is room; the first time there is none, add a note."""
        if self._room >= 0 > self._room - size:
            note = "[more output is not kept here: it is too large]\n"
            self._outputs.append({"output_type": "stream", "name": "stderr", "text": note})
        self._room -= size if self._room >= 0 else 0
        return self._room >= 0


_ID = "display_id"
