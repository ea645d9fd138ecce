"""A shell that draws our objects, as a notebook does."""

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from ipyagent.ui import register_formatters


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    register_formatters(shell)
    yield shell
    shell.history_manager.end_session()
