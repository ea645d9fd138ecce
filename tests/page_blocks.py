"""A page's copy of a run, kept as the front end keeps it: `labextension/src/channel.ts`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

from ipyagent.ui.blocks import Block, join_blocks

_CALL = re.compile(r"r/s\d+/c\d+")


class PageBlocks:
    """Takes a run's messages; `blocks` are as they were sent, none before the run begins."""

    def __init__(self) -> None:
        self.blocks: dict[str, Any] = {}
        self.order: dict[str, list[str]] = {}
        self.seq: int | None = None

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take in a snapshot, or the changes that come next; others are a mistake."""
        match message:
            case {"type": "snapshot", "seq": seq}:
                self.seq, self.blocks, self.order = seq, {}, {}
                self._set(message)
            case {"type": "changes", "seq": seq}:
                assert self.seq is None or seq == self.seq + 1
                self.seq = seq
                self._set(message)
                for each in message["more"]:
                    self.blocks[each["key"]]["more"] += each["text"]
                for key in message["drop"]:
                    del self.blocks[key]

    def _set(self, message: Mapping[str, Any]) -> None:
        self.blocks |= {each["key"]: dict(each) for each in message["set"]}
        self.order |= message["order"]

    def list(self) -> Iterator[Block]:
        """Yield the blocks in the order of the card."""
        return self._below("")

    def _below(self, parent: str) -> Iterator[Block]:
        for key in self.order.get(parent, ()):
            if key in self.blocks:
                block = self.blocks[key]
                yield Block(key, parent, block["html"], block["more"], block["own"])
                yield from self._below(key)

    @property
    def html(self) -> str:
        """The card, without what only a page adds."""
        return join_blocks(self.list())

    def own(self, key: str) -> Any:
        """Return the data of what a page adds to a block; None if there is nothing."""
        return self.blocks.get(key, {}).get("own")

    def calls(self) -> list[Any]:
        """Return all calls, in order: name, status, and what is asked about them."""
        return [self._call(key) for key, *_ in self.list() if _CALL.fullmatch(key)]

    def _call(self, key: str) -> Any:
        html, form = self.blocks[key]["html"], self.own(f"{key}/a") or {}
        name, status = re.findall(r'data-tool="([^"]*)" data-state="(\w+)"', html)[0]
        live = self.blocks.get(f"{key}/l", {}).get("html", "")
        asked = {"approval": None, "question": None, "late": None, "calls": [], **form}
        return {"name": name, "status": status, "text": words_of(html), "live": words_of(live)} | {
            each: asked[each] for each in ("approval", "question", "late", "calls")
        }

    def texts(self) -> list[str]:
        """Return the text of each step, without elements."""
        return [self._text(key) for key, *_ in self.list() if re.fullmatch(r"r/s\d+", key)]

    def thoughts(self) -> list[str]:
        """Return the thinking of each step as far as it streams."""
        keys = [key for key in self.blocks if re.fullmatch(r"r/s\d+/t", key)]
        return [self.blocks[key]["more"] for key in keys]

    def _text(self, step: str) -> str:
        parts = (self.blocks[key] for key in self.order.get(f"{step}/x", ()))
        return "".join(words_of(part["html"]) + part["more"] for part in parts)


def words_of(html: str) -> str:
    """Return what HTML says, without elements."""
    return unescape(re.sub(r"<[^>]+>", "", html)).strip()
