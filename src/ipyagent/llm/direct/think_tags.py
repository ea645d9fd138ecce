"""Thinking that a model writes into its answer, between tags such as <think> and </think>.

Servers that do not know a model's template pass it on as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

Kind = Literal["content", "thinking"]
Piece = tuple[Kind, str]

_TAGS = {
    **{f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "seed:think")},
    "[THINK]": "[/THINK]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi
    "<|channel|>analysis<|message|>": "<|end|><|start|>assistant<|channel|>final<|message|>",  # GPT
    "<|channel>thought": "<channel|>",  # Gemma
}
_MOST_BLANKS = 4_096
"""Blanks that are held back for a tag: a reply of blanks that never ends has to be seen as one."""


class ThinkTags:
    """Tells thinking at the beginning of an answer from the answer.

    Tags count only before any other text: later, the model writes about them.
    """

    def __init__(self) -> None:
        self.is_done = False
        """True if the rest of the answer is text as it comes."""
        self._state: Literal["start", "thinking", "after"] = "start"
        self._held = self._end = ""
        self._dropped = 0
        """Blanks left out between the thinking and the answer."""

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield the complete parts after `text`; part of a tag is held back."""
        self._held += text
        if self._state == "start":
            self._look_for_begin()
        if self._state == "thinking":
            yield from self._think()
        if self._state == "after":
            answer = self._held.lstrip()
            self._dropped += len(self._held) - len(answer)
            self._held = answer
            self.is_done = bool(answer) or self._dropped > _MOST_BLANKS
        if self.is_done:
            yield from self.end()

    def end(self) -> Iterator[Piece]:
        """Yield the text held back."""
        held, self._held = self._held, ""
        if held:
            yield "thinking" if self._state == "thinking" else "content", held

    def _look_for_begin(self) -> None:
        start = self._held.lstrip()
        if begin := next(filter(start.startswith, _TAGS), ""):
            self._state, self._end = "thinking", _TAGS[begin]
            self._held = start.removeprefix(begin).lstrip("\n")
        elif not any(tag.startswith(start) for tag in _TAGS) or len(self._held) > _MOST_BLANKS:
            self.is_done = True

    def _think(self) -> Iterator[Piece]:
        thought, tag, rest = self._held.partition(self._end)
        held = 0 if tag else _count_held(thought, self._end)
        if shown := thought[: len(thought) - held]:
            yield "thinking", shown
        self._held = rest if tag else thought[len(thought) - held :]
        if tag:
            self._state = "after"


def _count_held(text: str, tag: str) -> int:
    """Return how many characters at the end may be the beginning of the closing tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
