"""The outputs of code as a notebook's cell holds them."""

from __future__ import annotations

from ipyagent.json_types import JsonDict
from ipyagent.kernel.outputs import Channel, Outputs, Piece
from ipyagent.kernel.page_bundles import PageBundle, as_json
from ipyagent.plaintext import strip_escapes

ROOM = 10_000_000
"""Characters that a cell's outputs may have; more is named, not kept."""

Output = JsonDict
Bundle = JsonDict


class CellOutputs(Outputs):
    """Collects nbformat 4 outputs beside those for the model. `number` is the cell's."""

    place = "in its cell"

    def __init__(self, number: int | None) -> None:
        self._number = number
        super().__init__()

    def cell(self) -> list[Output]:
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
        self, bundle: Bundle, display_id: str | None = None, metadata: Bundle | None = None
    ) -> None:
        """Add a rich output."""
        super().show(bundle, display_id, metadata)
        output = {"output_type": "display_data", _ID: display_id}
        self._keep_bundle(output, bundle, metadata)

    def value(self, bundle: Bundle, metadata: Bundle | None = None) -> None:
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
        self, bundle: Bundle, display_id: str | None, metadata: Bundle | None = None
    ) -> bool:
        """Replace the output with that display id; return False if there is none."""
        for output in self._outputs:
            if display_id is not None and output.get(_ID) == display_id:
                output |= {"data": as_json(bundle), "metadata": metadata or {}}
        return super().update(bundle, display_id, metadata)

    def _pages(self) -> list[tuple[Piece, PageBundle]]:
        """Return nothing: the cell holds them."""
        return []

    def _forget(self) -> None:
        super()._forget()
        self._outputs: list[Output] = []
        self._room = ROOM

    def _keep_bundle(self, output: Output, bundle: Bundle, metadata: Bundle | None) -> None:
        data = as_json(bundle)
        self._keep(
            output | {"data": data, "metadata": metadata or {}},
            sum(len(value) if isinstance(value, str) else 1_000 for value in data.values()),
        )

    def _keep(self, output: Output, size: int) -> Output:
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
