"""Run the gate five times in clean clones, twice beside two busy processors.

Prints how long each took, which tests failed or were run again, and the slowest; the exit code is 1
if one was red. What it makes is removed, but for the log of a red one.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS = (False, True, False, True, False)
"""Whether each is beside busy processors."""

BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
FAULT = re.compile(r"^(FAILED|ERROR|RERUN) (\S+)|^(\w+: FAILED)$", re.MULTILINE)
SLOW = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S+)", re.MULTILINE)


@contextlib.contextmanager
def busy_processors(count: int) -> Iterator[None]:
    """Keep that many processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_gate(*, is_loaded: bool) -> tuple[bool, str]:
    """Run `make test` in a clean clone; return whether it was green, and its output."""
    with tempfile.TemporaryDirectory(prefix="steady-") as folder:
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, folder], check=True)
        with busy_processors(2 if is_loaded else 0):
            done = subprocess.run(
                ["make", "test"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
    return done.returncode == 0, done.stdout


def main() -> int:
    """Run all rounds, and print what they showed."""
    faults, slowest, red = Counter[str](), Counter[str](), 0
    for number, is_loaded in enumerate(ROUNDS, start=1):
        begun = time.monotonic()
        is_green, output = run_gate(is_loaded=is_loaded)
        word = "green" if is_green else "RED"
        beside = ", beside two busy processors" if is_loaded else ""
        print(f"{number}: {word} in {time.monotonic() - begun:.0f} s{beside}", flush=True)
        if not is_green:
            red += 1
            log = Path(tempfile.gettempdir()) / f"steady-{number}.log"
            log.write_text(output)
            print(f"   {log}", flush=True)
        faults.update(" ".join(filter(None, match.groups())) for match in FAULT.finditer(output))
        for match in SLOW.finditer(output):
            slowest[match[2]] = max(slowest[match[2]], float(match[1]))
    for name, count in sorted(faults.items()):
        print(f"{count} × {name}")
    for name, seconds in slowest.most_common(10):
        print(f"{seconds:6.1f} s {name}")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
