"""The first look of a kernel in which nothing was imported, in a folder that may be hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import kernel, python, script

pytestmark = pytest.mark.kernel

LOOKS = {"IPYAGENT_AGENT__LOOK_FREELY": "true", "IPYAGENT_AGENT__REHEARSE_SECONDS": "30"}
HOSTILE = """from pathlib import Path
import os
with open({marks!r}, 'a') as file:
    file.write(f"{{__name__}} {{os.getpid()}}\\n")
"""


def test_the_first_table_that_a_new_kernel_loads_is_a_look(tmp_path: Path) -> None:
    """Arrow's pool reserves a GiB at its first allocation, which is on the copy."""
    (tmp_path / "small.csv").write_text("name,count\n" + "one,1\ntwo,2\n" * 10)
    code = "import pandas as pd\nt = pd.read_csv('small.csv')\nprint(t['count'].sum())"
    with kernel(tmp_path, **LOOKS) as started:
        (execution,) = started.run(
            f"%%agent {script(tmp_path, python(code), 'Done.')}\nSum."
        ).executions
        assert execution["decided_by"] == "rehearsal", execution["rehearsal"]
        assert execution["result"]["output"] == "30"
        assert started.value("t.shape") == "(20, 2)"


def test_no_import_of_a_look_runs_a_file_of_the_workspace_in_the_kernel(tmp_path: Path) -> None:
    """Neither by modules that act when they are imported, nor in place of what libraries use."""
    marks = tmp_path / "marks.txt"
    (tmp_path / "setup.cfg").write_text("[metadata]\nname = x\nversion = attr: evil.VERSION\n")
    for name in ("evil", "numexpr", "bottleneck", "sniffio", "lxml", "xlsxwriter"):
        (tmp_path / f"{name}.py").write_text(HOSTILE.format(marks=str(marks)) + "VERSION = '1'\n")
    codes = (
        "import numpy._core.tests.examples.limited_api.setup",
        "import numpy.f2py.__main__",
        "import numpy.conftest, numpy.distutils",
        "import pandas as pd\npd.DataFrame({'a': [1, 2]}).eval('a * 2').sum()",
    )
    with kernel(tmp_path, **LOOKS) as started:
        started.run("import os, sys")
        state = "(sorted(os.environ), len(sys.meta_path))"
        before = started.value(state)
        done = started.run(f"%%agent {script(tmp_path, *map(python, codes), 'Done.')}\nImport.")
        assert len(done.executions) == len(codes)
        ran = marks.read_text().split() if marks.exists() else []
        assert started.value("os.getpid()") not in ran, ran
        assert started.value(state) == before
        loaded = "[name for name in sys.modules if name.startswith(('numpy.f2py', 'evil'))]"
        assert started.value(loaded) == "[]"
