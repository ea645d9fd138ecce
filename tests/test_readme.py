"""The README tells the truth."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ipyagent.config import Config, values_of
from ipyagent.magic.commands import COMMANDS
from ipyagent.magic.options import options_help

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_prints_what_it_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (claimed,) = re.findall(r"print\(.*#\s*(.*)", block)
    (tmp_path / "example.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == claimed


def test_every_option_is_described_and_every_described_option_exists() -> None:
    table = README[README.index("| option |") : README.index("`%agent` alone")]
    described = set(re.findall(r"--[a-z-]+", table)) - {"--"}
    described.discard("---")
    assert {o for o in described if o.strip("-")} == set(re.findall(r"--[a-z-]+", options_help()))


def test_every_subcommand_is_named() -> None:
    paragraph = README[README.index("`%agent` alone") :].partition("\n\n")[0]
    named = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([^`]*)`", paragraph))))
    assert named - {"agent"} == set(COMMANDS) - {"", "help"}


@pytest.mark.parametrize("key", re.findall(r"`?((?:llm|agent|workspace)\.[a-z_]+)=", README))
def test_every_setting_that_is_named_exists(key: str) -> None:
    assert key in values_of(Config())


def test_the_pictures_are_there() -> None:
    for path in re.findall(r'(?:src|srcset)="([^"]+)"', README):
        assert (ROOT / path).is_file()
