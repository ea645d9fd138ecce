"""`make screenshots`: the pictures in docs/, taken of the real thing in both themes.

Not a test: it writes into `docs/`. A scene is one function, which brings a notebook to the moment
that is shown and takes the picture.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from PIL import Image, ImageDraw
from playwright.sync_api import Locator, expect
from user_actions import await_active

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT, SCALE = 1000, 1500, 1.5
PATIENCE = 90_000
MAX_BYTES = 150_000
MAX_ANIMATED = 400_000
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

SELECT_FIRST = "() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0 }"

LOAD = "%load_ext ipyagent"
TABLE = "import pandas as pd\n\npenguins = pd.read_csv('data/penguins.csv')"


CLEAN = """\
measured = penguins.dropna(subset=["body_mass_g"])
print(len(penguins) - len(measured), "dropped")
"""
NOTE = "Penguins without a body mass were dropped: 2 of 344.\n"
MEANS = 'penguins.groupby("species").body_mass_g.mean()'
ROUNDED = 'penguins.groupby("species").body_mass_g.mean().round().sort_values()'


@pytest.fixture(scope="session")
def settings() -> dict[str, str]:
    """The default settings, with which code is tried on a copy first."""
    return {}


@dataclass
class Stage:
    """Where a scene is played: JupyterLab in one theme, with a folder and a kernel of its own."""

    folder: Path
    theme: str
    window: Callable[..., Any]

    def script(self, name: str, *replies: Any) -> str:
        """A file that plays the model's part, as the option of a cell."""
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(list(replies)))
        return f"-m scripted/{name}.yaml"

    def open(self, *sources: str, name: str = "penguins.ipynb", height: int = HEIGHT) -> Any:
        """A notebook of these cells, nothing run yet."""
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
        nbformat.write(made, self.folder / name)
        size = {"width": WIDTH, "height": height}
        book = self.window(f"{self.folder.name}/{name}", viewport=size, device_scale_factor=SCALE)
        book.page.evaluate(
            "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
            THEMES[self.theme],
        )
        book.command("application:toggle-left-area")
        return book

    def take(self, book: Any, name: str, *shown: Locator) -> None:
        """The part of the page that holds all of `shown`, or the whole of it."""
        # The selected cell has a toolbar, which is none of ours.
        book.page.evaluate(SELECT_FIRST)
        book.page.mouse.move(WIDTH - 2, 2)
        for each in shown[::-1]:
            each.scroll_into_view_if_needed()
        clip = _around([each.bounding_box() for each in shown]) if shown else None
        _save(book.page.screenshot(clip=clip), ROOT / "docs" / f"{name}-{self.theme}.png")


@pytest.fixture(params=THEMES)
def stage(request: pytest.FixtureRequest, jupyterlab: Any, window: Any) -> Stage:
    folder = jupyterlab.folder / request.node.name.removeprefix("test_").replace("[", "-")[:-1]
    shutil.copytree(ROOT / "notebooks" / "data", folder / "data")
    return Stage(folder, request.param, window)


def test_transcript(stage: Stage) -> None:
    """A question that was answered with a plot, and a call that waits for Approve."""
    book = stage.open(
        f"{LOAD}\n{TABLE}",
        "%%agent\nList the files in data",
        "%%agent\nPlot bill length against body mass coloured by species",
        "%%agent\nAdd a column bill_ratio = bill_length_mm / bill_depth_mm",
    )
    book.start_all()
    book.expect_state(3, "waiting")
    expect(book.run(2).locator("img")).to_be_visible()
    expect(book.run(3).locator("[data-ipyagent=effects]")).to_be_visible(timeout=PATIENCE)
    await_active(book.run(3).locator("[data-ipyagent=approve]"))
    stage.take(book, "transcript", book.cell(2), book.cell(3))


def test_approval(stage: Stage) -> None:
    """An approval, as an animation: a cell is run, its call is approved, and it is done."""
    if stage.theme == "dark":
        return
    book = stage.open(
        f"{LOAD}\n{TABLE}",
        "%%agent\nList the files in data",
        "%%agent\nAdd a column bill_ratio = bill_length_mm / bill_depth_mm",
    )
    book.start(0)
    book.start(1)
    book.expect_state(1, "done")
    frames = Frames(book, book.cell(2))
    frames.take(1.5)
    book.start(2)
    approve = book.run(2).locator("[data-ipyagent=approve]")
    expect(book.run(2).locator("[data-ipyagent=effects]")).to_be_visible(timeout=PATIENCE)
    await_active(approve)
    frames.take(2.5)
    approve.hover()
    frames.take(1.0, point=approve)
    approve.click()
    book.expect_state(2, "done")
    frames.take(3.5)
    frames.save(ROOT / "docs" / "approval.png")


class Frames:
    """The frames of an animation of one cell, each with the seconds for which it is seen."""

    def __init__(self, book: Any, cell: Locator) -> None:
        self.book, self.cell = book, cell
        self.shots: list[tuple[Image.Image, float]] = []

    def take(self, seconds: float, point: Locator | None = None) -> None:
        """Take a frame; `point` is where the mouse is drawn, which pictures leave out."""
        self.book.page.evaluate(SELECT_FIRST)
        if point is None:
            self.book.page.mouse.move(WIDTH - 2, 2)
        self.cell.scroll_into_view_if_needed()
        box = self.cell.bounding_box()
        shot = Image.open(io.BytesIO(self.book.page.screenshot(clip=box))).convert("RGB")
        if point is not None:
            at = point.bounding_box()
            x, y = (at["x"] + at["width"] / 2 - box["x"], at["y"] + at["height"] / 2 - box["y"])
            arrow = [(0, 0), (0, 17), (4, 13), (7, 19), (10, 18), (7, 12), (12, 12)]
            corners = [((x + dx) * SCALE, (y + dy) * SCALE) for dx, dy in arrow]
            ImageDraw.Draw(shot).polygon(corners, fill="black", outline="white")
        self.shots.append((shot, seconds))

    def save(self, path: Path) -> None:
        """Save them as an animated PNG: all of one size, with one palette."""
        width, height = (max(shot.size[side] for shot, _ in self.shots) for side in (0, 1))
        whole = Image.new("RGB", (width, height * len(self.shots)), "white")
        for number, (shot, _) in enumerate(self.shots):
            whole.paste(shot, (0, height * number))
        flat = whole.quantize(256, dither=Image.Dither.NONE)
        first, *others = (
            flat.crop((0, height * number, width, height * (number + 1)))
            for number in range(len(self.shots))
        )
        durations = [round(seconds * 1_000) for _, seconds in self.shots]
        first.save(path, save_all=True, append_images=others, duration=durations, loop=0)
        assert path.stat().st_size < MAX_ANIMATED, f"{path.name} has {path.stat().st_size:,} bytes"


def test_plan(stage: Stage) -> None:
    """A plan, as it is shown before anything of it runs."""
    calls = [
        {"name": "run_python", "arguments": {"code": CLEAN}},
        {"name": "write_file", "arguments": {"path": "data/clean.md", "content": NOTE}},
    ]
    text = "1. Drop the penguins that were not measured.\n2. Note what was done."
    option = stage.script("plan", {"thinking": "Two steps.", "text": text, "calls": calls})
    prompt = "Clean the table, and write down what you did."
    book = stage.open(f"{LOAD}\n{TABLE}", f"%%agent --plan {option}\n{prompt}")
    book.start_all()
    expect(book.run(1).nth(1)).to_have_attribute("data-state", "waiting", timeout=PATIENCE)
    expect(book.run(1).nth(1).locator("[data-ipyagent=effects]")).to_be_visible(timeout=PATIENCE)
    await_active(book.run(1).nth(1).locator("[data-ipyagent=approve]"))
    stage.take(book, "plan", book.run(1).nth(1))


def test_panel(stage: Stage) -> None:
    """The side panel beside a notebook: what waits, what has been done, what it touched."""
    book = stage.open(
        f"{LOAD}\n{TABLE}",
        "%%agent\nWhich species has the highest mean body mass?",
        "%%agent\nAdd a column bill_ratio = bill_length_mm / bill_depth_mm",
        height=760,
    )
    book.page.set_viewport_size({"width": 1400, "height": 760})
    book.command("ipyagent:show-panel")
    book.start_all()
    book.expect_state(2, "waiting")
    await_active(book.run(2).locator("[data-ipyagent=approve]"))
    stage.take(book, "panel")


def test_error(stage: Stage) -> None:
    """What is offered below a cell that failed."""
    setup = f"{LOAD}\n%xmode Minimal\n{TABLE}"
    book = stage.open(setup, "penguins.groupby('specie').body_mass_g.mean()")
    book.start_all()
    fix = book.cell(1).locator("[data-ipyagent=fix]")
    expect(fix).to_be_visible(timeout=PATIENCE)
    stage.take(book, "error", book.cell(1))


def test_proposal(stage: Stage) -> None:
    """An edit of a cell, shown where it would be made."""
    edit = {"name": "edit_cell", "arguments": {"cell": 2, "source": ROUNDED}}
    option = stage.script("edit", {"calls": [edit]}, "Rounded.")
    prompt = "Round the means to whole grams, and sort them."
    book = stage.open(f"{LOAD}\n{TABLE}", f"%%agent {option}\n{prompt}", MEANS)
    book.start(0)
    book.start(1)
    accept = book.page.locator("[data-ipyagent=proposal] [data-ipyagent=approve]")
    expect(accept).to_be_visible(timeout=PATIENCE)
    await_active(accept)
    stage.take(book, "proposal", book.cell(2), accept)


def _around(boxes: list[Any]) -> dict[str, float]:
    left, top = (min(box[side] for box in boxes) for side in ("x", "y"))
    right = max(box["x"] + box["width"] for box in boxes)
    bottom = max(box["y"] + box["height"] for box in boxes)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def _save(png: bytes, path: Path) -> None:
    """With a palette: text and flat colours need no more, at a third of the size."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MAX_BYTES, f"{path.name} has {path.stat().st_size:,} bytes"
