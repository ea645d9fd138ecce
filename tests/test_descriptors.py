from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from ipyagent.errors import ConfigError, describe_error

WITHOUT = """
import os, resource, sys
from IPython.core.interactiveshell import InteractiveShell
from ipyagent import magic
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config({'HistoryManager': {'enabled': False}}))
state = shell.meta[magic.Extension] = magic.Extension(shell)
most = max(map(int, os.listdir('/proc/self/fd'))) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
try:
    while True: os.open(os.devnull, os.O_RDONLY)
except OSError: pass
state.imported = magic.import_in_background(None)
state.imported.result()
try:
    magic.run_blocking("", "Hello.")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_an_error_that_came_of_too_many_files_says_the_way_out(number: int) -> None:
    error = ConfigError("The script cannot be read.")
    error.__context__ = OSError(number, os.strerror(number))
    told = describe_error(error)
    assert told.startswith("The script cannot be read. This process has as many files")
    assert "ulimit -n" in told


def test_any_other_error_is_as_it_is() -> None:
    assert describe_error(OSError(errno.ENOENT, "gone")) == "[Errno 2] gone"


def test_an_import_without_descriptors_is_one_line_and_no_thread_prints() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert "Too many open files" in line
    assert "raise the limit" in line
    assert "pip install" not in line
