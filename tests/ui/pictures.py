"""A run in each of the forms in which a notebook or a terminal shows it."""

from __future__ import annotations

from ipyagent.schema import Run
from ipyagent.ui import plain_text, static_html
from ipyagent.ui.transcribe.run import transcribe


def run_html(run: Run) -> str:
    return static_html.run_html(transcribe(run))


def render(run: Run) -> str:
    return plain_text.render(transcribe(run, folds_thoughts=False))
