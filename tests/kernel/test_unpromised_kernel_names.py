"""Names of others that the kernel room uses, though nobody promises to keep them."""

import subprocess
import sys

import pandas as pd
import polars as pl
import pytest
from comm import create_comm
from IPython.core.interactiveshell import InteractiveShell

PUBLISH_STATUS = """
import inspect
from ipykernel.ipkernel import IPythonKernel
inspect.signature(IPythonKernel._publish_status).bind(None, "busy", "shell", {})
"""


def test_ipykernel_publishes_the_status_for_a_given_message() -> None:
    done = subprocess.run([sys.executable, "-c", PUBLISH_STATUS], capture_output=True, text=True)
    assert done.returncode == 0, (
        "Kernel._publish_status is gone or takes other arguments: during an agent cell the user's "
        "widgets freeze at the first change. Look in ipykernel for another way to publish busy and "
        f"idle, and change kernel/drivers.py\n{done.stderr}"
    )


def test_a_comm_keeps_the_function_that_takes_its_messages() -> None:
    assert hasattr(create_comm(target_name="x"), "_msg_callback"), (
        "BaseComm._msg_callback is gone: a page's message closes the figures that a running cell "
        "has begun to draw. See what BaseComm.handle_msg does now, and change "
        "kernel/pages.py"
    )


@pytest.mark.parametrize("name", ["showtraceback", "showsyntaxerror", "_showtraceback"])
def test_ipython_shows_errors_by_the_methods_that_are_recorded(name: str) -> None:
    assert callable(getattr(InteractiveShell, name, None)), (
        f"InteractiveShell.{name} is gone: errors of the agent's code may be printed into the "
        "cell. Look for what shows them now, and change kernel/capture.py"
    )


def test_polars_makes_its_own_class_of_a_subclass_s_data() -> None:
    message = "polars hides its data elsewhere: change values/describe/libraries.py"
    frame, series = pl.DataFrame({"a": [1]}), pl.Series("a", [1])
    assert hasattr(frame, "_df"), message
    assert hasattr(series, "_s"), message
    assert pl.DataFrame._from_pydf(frame._df).equals(frame), message
    assert pl.Series._from_pyseries(series._s).equals(series), message


def test_pandas_keeps_its_data_where_a_subclass_would_hide_it() -> None:
    assert "_mgr" in dir(pd.DataFrame({"a": [1]})), (
        "pandas hides its data elsewhere: a subclass with methods of its own for it would not be "
        "noticed. Change _OWN in values/describe/libraries.py"
    )
