"""Settings that code would change on the copy only are asked about; reading them is a look."""

from __future__ import annotations

import asyncio
import atexit
import csv
import decimal
import gc
import locale
import logging
import os
import signal
import socket
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ipyagent.schema import RehearsalOutcome
from ipyagent.tools.reports import judge_report
from ipyagent.tools.workspace import Workspace
from rehearsal_trial import rehearse
from sampling import cases


def patch() -> None:
    pd.DataFrame.head = None


def variables() -> dict[str, Any]:
    modules = (atexit, csv, decimal, gc, locale, logging, os, signal, socket, sys, tempfile, types)
    named = {each.__name__: each for each in modules}
    tempfile.gettempdir()  # which finds it on first use
    df = pd.DataFrame({"a": [1]})
    return {
        **named,
        "asyncio": asyncio,
        "pl": pl,
        "pd": pd,
        "np": np,
        "df": df,
        "patch": patch,
        "values": {"a": 1},
    }


def effects(code: str, folder: Path) -> list[str]:
    report = rehearse(code, variables() | {"FOLDER": str(folder)}, folder)
    assert "problem" not in report, report
    assert report["result"]["success"], report["result"]
    files = [each["path"] for each in report["files"]]
    return [*(each["name"] for each in report["variables"]), *report["around"], *files]


CHANGES = [
    "decimal.getcontext().prec = 50", "decimal.setcontext(decimal.Context(prec=3))",
    "decimal.getcontext().traps[decimal.Inexact] = True",
    "logging.getLogger('mine').setLevel(10)", "logging.disable(50)",
    "logging.getLogger('mine').addHandler(logging.NullHandler())",
    "sys.set_int_max_str_digits(0) or None", "csv.field_size_limit(10**8)",
    "csv.register_dialect('mine', delimiter=';')", "socket.setdefaulttimeout(3)",
    "signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal.alarm(1000)", "os.umask(0o777)",
    "locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "sys.settrace(lambda *_: None)",
    "sys.modules.pop('csv') and None", "sys.modules['mine'] = types.ModuleType('mine')",
    "sys.meta_path.append(object()) or None", "sys.path_hooks.clear()", "gc.enable()",
    "gc.callbacks.append(print)", "pl.Config.set_fmt_float('full') and None",
    "__import__('calendar').setfirstweekday(6)", "asyncio.new_event_loop().create_task",
    "atexit.register(print)", "[f(print) for f in [atexit.register]]",
    "setattr(pd.DataFrame, 'zork', 1)", "__builtins__['set' + 'attr'](pd.DataFrame, 'ndim', 1)",
    "type(df).zork = 1", "df.__class__.zork = 1", "patch()",
    "import pandas as p; p.zork = 1; del p",
    "pd.api.extensions.register_dataframe_accessor('mine')(int) and None",
    "os.environ['POLARS_MAX_THREADS'] = '1'", "os.environ['MINE'] = '1'", "pd.options = 1",
    "pd.zork = pd.options", "import pandas as p; p.options = 1; del p", "pl.options = {}",
    "tempfile.mkdtemp()", "os.mkdir(FOLDER + '/made')", "os.mkdir(tempfile.gettempdir() + '/made')",
]  # fmt: skip


@pytest.mark.parametrize("code", cases(CHANGES))
def test_a_changed_setting_is_noticed(tmp_path: Path, code: str) -> None:
    assert effects(code, tmp_path), "not noticed"


COMPARED = [
    "pd.options.display.max_rows = 7", "import pandas as p\np.options.display.precision = 2",
    "import matplotlib as mpl\nmpl.rcParams['figure.dpi'] = 50",
    "import matplotlib.pyplot as plt\nplt.rcParams['font.size'] = 5",
    "pl.Config.set_tbl_rows(9) and None",
]  # fmt: skip


@pytest.mark.parametrize("code", COMPARED)
def test_settings_for_what_is_shown_are_told_as_such(tmp_path: Path, code: str) -> None:
    import matplotlib.pyplot  # noqa: F401 - what is imported on the copy is read only once

    assert set(effects(code, tmp_path)) <= {"p", "mpl", "plt", "changes the settings of a module"}
    assert "changes the settings of a module" in effects(code, tmp_path)


LOOKS = [
    "print(decimal.Decimal(1) / 3, decimal.getcontext().prec)", "logging.getLogger('mine').level",
    "sys.get_int_max_str_digits()", "csv.field_size_limit()", "signal.getsignal(signal.SIGINT)",
    "__import__('colorsys').rgb_to_hsv(1, 2, 3)", "__import__('wsgiref.simple_server') and None",
    "with tempfile.TemporaryDirectory(): pass", "df.groupby('a').size()", "str(df.describe())",
    "with decimal.localcontext() as c: values['a']", "gc.collect() and None",
    "os.getpid() and None",
]  # fmt: skip


@pytest.mark.parametrize("code", cases(LOOKS))
def test_reading_a_setting_is_a_look(tmp_path: Path, code: str) -> None:
    assert set(effects(code, tmp_path)) <= {"c"}


def test_code_that_misses_the_kernels_event_loop_did_not_fail(tmp_path: Path) -> None:
    async def run() -> dict[str, Any]:
        asyncio.get_running_loop()
        return rehearse("asyncio.get_running_loop().time()", {"asyncio": asyncio}, tmp_path)

    report = asyncio.run(run())
    assert report["result"]["error"] == "RuntimeError: no running event loop"
    judged = judge_report(report, [], Workspace(tmp_path), {})
    assert judged.rehearsal.outcome is RehearsalOutcome.CHANGES


@pytest.mark.parametrize("code", ["plt.title('x')", "from matplotlib import pyplot as p\np.grid()"])
def test_a_figure_that_is_open_may_be_changed_by_whatever_draws(code: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    looks = rehearse("plt.figure()\nplt.title('x')\nplt.close()", {"plt": plt}, tmp_path)
    plt.figure()
    try:
        asks = rehearse(code, {"plt": plt}, tmp_path)
    finally:
        plt.close()
    assert looks["around"] == []
    assert asks["around"] == ["may change a figure that is open"]
