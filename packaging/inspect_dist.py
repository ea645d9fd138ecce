"""Find what does not belong in a wheel or a source distribution."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = re.compile(
    r"(^|/)(node_modules|__pycache__|\.venv[^/]*|\.git|\.ipyagent|\.ipynb_checkpoints|\.env)(/|$)"
    r"|\.(pyc|map|db|tsbuildinfo)$"
)
SHARED = re.compile(r"ipyagent-[^/]+\.data/data/share/jupyter/labextensions/ipyagent/")
WHEEL = re.compile(rf"ipyagent/|ipyagent-[^/]+\.dist-info/|{SHARED.pattern}")
TESTS = re.compile(r"(^|/)(tests?|__tests__)/|(^|/)(test_[^/]*|conftest)\.py$")


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel or a source distribution by their names."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(path) as archive:
        files = [member for member in archive if not member.isdir()]
        return {m.name: (archive.extractfile(m) or sys.exit(m.name)).read() for m in files}


def find_faults(files: dict[str, bytes], *, wheel: bool) -> Iterator[str]:
    """Yield what is in the archive and should not be, and what is missing."""
    for name, content in files.items():
        if name.startswith("/") or ".." in name.split("/"):
            yield f"{name} leads out of the folder"
        if FOREIGN.search(name):
            yield f"{name} is a product of work, not a source"
        if wheel and (TESTS.search(name) or not WHEEL.match(name)):
            yield f"{name} does not belong in a wheel"
        if f"{ROOT}/".encode() in content:
            yield f"{name} names a place on the builder"
    if not any(SHARED.match(name) and name.endswith("/install.json") for name in files) and wheel:
        yield "the extension of JupyterLab is missing"
    for name in ("loader.js", "widget.js", "widget.css"):
        if not any(each.endswith(f"ipyagent/ui/static/{name}") for each in files):
            yield f"the widget's {name} is missing"


def main(paths: list[str]) -> int:
    """Print the faults of the given archives; return 1 if there are any."""
    faults = [
        f"{path}: {fault}"
        for path in map(Path, paths)
        for fault in find_faults(read_archive(path), wheel=path.suffix == ".whl")
    ]
    print("\n".join(faults) or f"{len(paths)} archives hold what they should")
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
