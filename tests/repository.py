"""The repository: its root, its sources as text and as trees, its scripts as modules."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ipyagent"
FRONT_END = ROOT / "labextension" / "src"


@cache
def read_sources() -> dict[str, str]:
    """Return the text of each Python file of the package, by its path there."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in paths}


@cache
def read_front_end() -> dict[str, str]:
    """Return the text of each TypeScript file that is not generated, by its path there."""
    paths = sorted(path for path in FRONT_END.rglob("*.ts") if path.name != "protocol.ts")
    return {path.relative_to(FRONT_END).as_posix(): path.read_text("utf-8") for path in paths}


@cache
def parse_sources() -> dict[str, ast.Module]:
    """Return the tree of each Python file of the package, by its path there."""
    return {path: ast.parse(text) for path, text in read_sources().items()}


def load_script(path: str) -> ModuleType:
    """Return the script at a path of the repository, loaded anew."""
    spec = spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
