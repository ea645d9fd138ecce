"""Which calls are asked about."""

from __future__ import annotations

from dataclasses import dataclass, field

from ipyagent.config import ConfirmMode
from ipyagent.schema import DecidedBy
from ipyagent.tools.base import Tool


@dataclass
class Policy:
    """The confirm mode, and the tools that the person allowed for this session."""

    mode: ConfirmMode = "confirm-sensitive"
    always: set[str] = field(default_factory=set)

    def waves_through(self, tool: Tool) -> DecidedBy | None:
        """Who lets a call of this tool run unasked; None: a person has to be asked."""
        if self.mode == "yolo" or (self.mode == "confirm-sensitive" and not tool.sensitive):
            return DecidedBy.POLICY
        return DecidedBy.SESSION if tool.name in self.always else None
