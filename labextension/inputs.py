"""Whether the built front end belongs to these sources; needs no Node.

`python inputs.py` says so by its exit status; `python inputs.py --write` records the present
sources and is the last act of a build.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORD = HERE / "inputs.sha256"
FILES = ("build.mjs", "install.json", "package.json", "tsconfig.json", "yarn.lock")
FOLDERS = ("src", "style")
CARD = "src/ipyagent/ui/card.css"


def inputs() -> list[Path]:
    """Everything that the built files are made of, in a fixed order."""
    found = [path for folder in FOLDERS for path in (HERE / folder).rglob("*") if path.is_file()]
    sources = [path for path in found if "__tests__" not in path.parts]
    return sorted([HERE / name for name in FILES] + [HERE.parent / CARD] + sources)


def digest() -> str:
    """One hash over names and contents, the same on every system."""
    total = hashlib.sha256()
    for path in inputs():
        name = path.relative_to(HERE.parent).as_posix()
        content = path.read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def main(arguments: list[str]) -> int:
    """Check the record, or write it."""
    if arguments == ["--write"]:
        RECORD.write_text(digest() + "\n")
        return 0
    if RECORD.read_text().strip() == digest():
        return 0
    sys.stderr.write("The built front end is not of these sources: run `jlpm build` and commit.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
