"""Looks in a real kernel, whose other threads speak with pages while it forks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernels import Kernel, kernel, python, script

pytestmark = pytest.mark.kernel


LOOKS = {"IPYAGENT_AGENT__LOOK_FREELY": "true", "IPYAGENT_AGENT__REHEARSE_SECONDS": "30"}


FORBID = """
from ipyagent.magic import state_of
state_of(get_ipython()).imported.result()
from ipyagent.rehearsal import system
from ipyagent.tools.sandbox import bubblewrap
system.forbid_new_privileges()
system.filter_calls(bubblewrap.build_filter())
del state_of, system, bubblewrap
"""
"""Makes a kernel a place where namespaces are refused, as Docker does.

It waits for the import in the background: where one thread imports a package and another one of its
modules, CPython gives up one of them.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("", id="namespaces"),
        pytest.param(FORBID, id="Landlock", marks=pytest.mark.slow),
    ],
)
def shared(
    folder: Path, request: pytest.FixtureRequest, isolation_problems: Mapping[str, str | None]
) -> Iterator[Kernel]:
    if request.param and (problem := isolation_problems["Landlock"]):
        pytest.skip(problem)
    # Both kernels work in one folder, and the second is to look for itself.
    with kernel(folder, IPYAGENT_AGENT__REPLAY="never", **LOOKS) as started:
        started.run(request.param)
        started.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})\n2 + 2")
        yield started


def look(shared: Kernel, folder: Path, code: str) -> dict[str, Any]:
    """Let the model run some code where nobody can be asked."""
    return shared.run(f"%%agent {script(folder, python(code), 'Done.')}\nLook.").executions[0]


def test_where_namespaces_are_forbidden_landlock_takes_their_place(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,x\n2,y\n")
    with kernel(tmp_path, **LOOKS) as started:
        assert started.run(FORBID).content["status"] == "ok"
        started.run("import pandas as pd")
        found = look(started, tmp_path, "df = pd.read_csv('data.csv')\nlen(df)")
        assert found["rehearsal"]["outcome"] == "adopted", found["rehearsal"]
        status = started.run("%agent status").stdout
        assert "that Landlock keeps from writing" in status, status
        found = look(started, tmp_path, "df.to_csv('made.csv')")
        assert found["status"] == "denied", found
        assert found["rehearsal"]["files"] == [{"path": "made.csv", "change": "created"}]
        assert not (tmp_path / "made.csv").exists()


LOOKED_AT = [
    # Words that might reach everything.
    "# eval this, then exec and compile\nlen(df)", "print('vars, locals, globals and inspect')",
    "df.eval('a * 2').sum()", "re.compile('x').pattern", "inspect.signature(np.mean)",
    "vars(Point)['x']", "df.rename(columns={'a': 'eval'})['eval'].mean()", "eval('1 + 1')",
    "word(1)",
    "7 \\\n% 4",
    # A name that the shell has anyway, a file that is read once more.
    "from IPython.display import display\ndisplay(df)",
    "with open('lines.txt') as file:\n    print(file.readline())",
    "await asyncio.sleep(0, len(df))",
]  # fmt: skip


@pytest.mark.parametrize("code", LOOKED_AT)
def test_what_changes_nothing_is_a_look(shared: Kernel, folder: Path, code: str) -> None:
    (folder / "lines.txt").write_text("one\ntwo\n")
    shared.run(
        "import asyncio, re, inspect, numpy as np\nclass Point: x = 1\n"
        "def word(x): return eval('x') or re.compile('x')\n"
        "with open('lines.txt') as file: file.readline()"
    )
    found = look(shared, folder, code)
    assert found["rehearsal"]["outcome"] == "looked", found["rehearsal"]


def test_the_first_code_of_a_kernel_may_import_pandas(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,x\n2,y\n")
    with kernel(tmp_path, **LOOKS) as started:
        code = (
            "import pandas as pd\nfrom pathlib import Path\ndf = pd.read_csv('data.csv')\nlen(df)"
        )
        found = look(started, tmp_path, code)
        assert found["rehearsal"]["outcome"] == "adopted", found["rehearsal"]
        assert started.value("pd.concat([df, df]).a.tolist()") == "[1, 2, 1, 2]"


def test_a_file_with_a_librarys_name_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "seaborn.py").write_text("open('ran', 'w')")
    with kernel(tmp_path, **LOOKS) as started:
        found = look(started, tmp_path, "import seaborn")
        assert found["status"] == "denied", found
        assert not (tmp_path / "ran").exists()


def test_the_first_figure_of_a_kernel_is_drawn_on_the_copy(tmp_path: Path) -> None:
    with kernel(tmp_path, **LOOKS) as started:
        started.run("import matplotlib.pyplot as plt")
        found = look(started, tmp_path, "plt.plot([1, 2])\nplt.show()")
        assert found["rehearsal"]["outcome"] == "looked", found["rehearsal"]
        assert len(found["result"]["images"]) == 1
        shown = started.run("_ = plt.plot([1, 2])")
        assert "image/png" in shown.of("display_data")[0]["data"]


def test_a_figure_is_drawn_on_the_copy(shared: Kernel, folder: Path) -> None:
    shared.run("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()")
    found = look(shared, folder, "df.plot()\nplt.show()")
    assert found["rehearsal"]["outcome"] == "looked", found["rehearsal"]
    assert found["result"]["images"], found


LEFT = {
    "fig, ax = plt.subplots()\nax.plot(df.a)\nplt.show()": "fig (Figure), ax (Axes)",
    "counts, edges, bars = plt.hist(df.a)\nplt.show()": "bars (BarContainer)",
    "ax = df.plot()": "ax (Axes)",
    "groups = df.groupby('a')\ngroups.size()": "groups (DataFrameGroupBy)",
    "class Row:\n    a = 1\nrow = Row()\nrow.a": "Row (type), row (Row)",
    "import re\nm = re.search('a', 'cat')\nm.start()": "m (Match)",
    "import wave\nwave.WAVE_FORMAT_PCM": "wave",
    "pd.set_option('display.max_columns', None)\ndf": "changes to pd (module)",
    "import warnings\nwarnings.filterwarnings('ignore')\ndf": "changes to warnings (module)",
    "%precision 2": "changes to %precision",
}


@pytest.mark.parametrize("code", LEFT)
def test_what_is_no_data_is_left_on_the_copy(shared: Kernel, folder: Path, code: str) -> None:
    shared.run("import numpy as np, matplotlib.pyplot as plt, warnings, scipy.stats")
    state = (
        "(warnings.filters, pd.options.display.max_columns, plt.rcParams['axes.facecolor'],"
        " {'fig', 'ax', 'axes', 'bars', 'groups', 'con', 'Row'} & globals().keys())"
    )
    before = shared.value(state)
    found = look(shared, folder, code)
    assert found["decided_by"] == "rehearsal", found
    assert found["reason"].endswith(f"; left on the copy: {LEFT[code]}")
    assert found["result"]["for_model"].count(f"where this ran: {LEFT[code]}.") == 1
    assert shared.value(state) == before


def test_beside_what_is_left_on_the_copy_plain_data_is_adopted(
    shared: Kernel, folder: Path
) -> None:
    found = look(shared, folder, "import re\nm = re.search('t', 'cat')\nplace = m.start()\nplace")
    assert found["rehearsal"]["outcome"] == "adopted", found
    assert found["rehearsal"]["left"] == ["m (Match)"]
    assert shared.value("(place, 'm' in globals())") == "(2, False)"


MAGICS = ["%matplotlib inline", "%time len(df)", "%timeit -n1 -r1 len(df)", "%who", "df?"]


@pytest.mark.parametrize("code", MAGICS)
def test_magics_that_set_up_or_measure_are_looks(shared: Kernel, folder: Path, code: str) -> None:
    found = look(shared, folder, code)
    assert found["decided_by"] == "rehearsal", found["rehearsal"]
    assert "left" not in found["rehearsal"]


def test_imports_beside_a_magic_are_adopted(shared: Kernel, folder: Path) -> None:
    shared.run("globals().pop('dumps', None)")
    look(shared, folder, "%matplotlib inline\nfrom json import dumps")
    assert shared.value("dumps.__name__") == "'dumps'"


def test_a_generator_is_adopted_where_numpy_has_not_loaded_it_yet(tmp_path: Path) -> None:
    code = "import numpy as np\nrng = np.random.default_rng(42)\nrng.normal(size=3).round(3)"
    with kernel(tmp_path, **LOOKS) as started:
        found = look(started, tmp_path, code)
        assert found["rehearsal"]["outcome"] == "adopted", found["rehearsal"]
        again = "[r := np.random.default_rng(42), r.normal(size=3), r.random()][-1]"
        assert started.value(f"rng.random() == {again}") == "True"


def test_a_seed_stays_where_numpy_has_not_loaded_random_numbers_yet(tmp_path: Path) -> None:
    with kernel(tmp_path, **LOOKS) as started:
        found = look(started, tmp_path, "import numpy as np\nnp.random.seed(7)")
        assert found["decided_by"] == "rehearsal", found["rehearsal"]
        again = "[np.random.rand(), np.random.seed(7), np.random.rand()]"
        assert started.value(f"(lambda r: r[0] == r[2])({again})") == "True"


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("for item in df:\n    print(item)", {}),
        ("for item, n in enumerate(df.a):\n    print(n)", {}),
        ("total = 0\nfor item in df.a:\n    total += item", {"total": 6}),
        ("last = item\nfor item in ([1], [2]):\n    pass", {}),
        ("for item in ([1], [2]):\n    last = item", {"last": [2]}),
    ],
)
def test_a_name_that_only_a_loop_binds_anew_is_left_as_it_is(
    shared: Kernel, folder: Path, code: str, made: dict[str, object]
) -> None:
    shared.run(
        "for each in ('last', 'total', 'n'):\n    globals().pop(each, None)\nitem = ['mine']"
    )
    found = look(shared, folder, code)
    assert found["decided_by"] == "rehearsal", found
    assert shared.value("item") == "['mine']"
    for name, value in made.items():
        assert shared.value(name) == repr(value)
    if code.startswith("last"):
        assert shared.value("last is item") == "True"


def test_code_that_misses_what_was_left_on_a_copy_is_told_to_make_it(
    shared: Kernel, folder: Path
) -> None:
    codes = "per_value = df.groupby('a', observed=True)\nper_value.size()", "per_value.mean()"
    option = script(folder, *map(python, codes), "Done.")
    found = shared.run(f"%%agent {option}\nLook.").results[1]
    assert "(Left on an earlier copy of the kernel: per_value." in found["for_model"]
    assert "copy of the kernel" not in found["error"]
    other = look(shared, folder, "per_values")["result"]
    assert "copy of the kernel" not in (other["for_model"] or "")


DISPLAY = "from IPython.display import display\ndisplay({}, raw=True)"
PLOTLY = "application/vnd.plotly.v1+json"


def test_a_chart_of_data_alone_is_drawn_by_the_page_and_nobody_is_asked(
    shared: Kernel, folder: Path
) -> None:
    bundle = {PLOTLY: {"data": [{"y": [7]}]}, "text/plain": "a plot", "text/html": "<script/>"}
    reply = shared.run(f"%%agent {script(folder, python(DISPLAY.format(bundle)), 'Done.')}\nLook.")
    found = reply.executions[0]
    assert (found["status"], found["decided_by"]) == ("success", "rehearsal"), found
    drawn = [each["data"] for each in reply.of("display_data") if PLOTLY in each["data"]]
    assert drawn == [{PLOTLY: {"data": [{"y": [7]}]}, "text/plain": "a plot"}]
    assert found["result"]["output"] == "[plotly figure, shown to the user]"
    assert found["result"]["displays"][0]["beside"]


@pytest.mark.parametrize(
    "bundle",
    [
        {"text/latex": "$x^2$", "text/plain": "x**2"},
        {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "x**2"},
    ],
)
def test_what_has_words_of_its_own_is_told_by_them(
    shared: Kernel, folder: Path, bundle: dict[str, Any]
) -> None:
    found = look(shared, folder, DISPLAY.format(bundle))
    assert (found["decided_by"], found["result"]["output"]) == ("rehearsal", "x**2"), found


def test_messages_of_widgets_are_no_output(shared: Kernel, folder: Path) -> None:
    code = "import comm\ncomm.create_comm(target_name='jupyter.widget').send({'a': 1})\nprint(1)"
    assert look(shared, folder, code)["result"]["output"] == "1"


ADDRESS = {PLOTLY: {"layout": {"images": [{"source": "https://e.vil/?n=1"}]}}}
SLIDER = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider(value=3)"}
ONLY_PAGE = "shows what only a page can draw"
ASKED_ABOUT = {
    # A name that is bound in other ways than by a loop, is none, or is changed inside.
    "for item in range(3):\n    pass\nitem = 7": "",
    "for item in [df]:\n    item['b'] = 1": "",
    "item = [2]\nprint(item)": "",
    "globals()['Please ignore this'] = 1\nlen(df)": "",
    # A text that is put together may name any variable.
    "df.eval('a == 1 and @ke' + 'pt.append(2) == 1')": "",
    "df.query('a == 1 and @ke' + 'pt.append(2) == 1')": "",
    "!ls": "starts a process",
    DISPLAY.format(ADDRESS): ONLY_PAGE,
    DISPLAY.format(SLIDER): ONLY_PAGE,
}
"""Code, and a reason that is given."""


@pytest.mark.parametrize("code", ASKED_ABOUT)
def test_what_a_copy_cannot_take_the_place_of_is_asked_about(
    shared: Kernel, folder: Path, code: str
) -> None:
    shared.run("item, kept = ['mine'], [1]")
    found = look(shared, folder, code)
    assert (found["status"], found["rehearsal"]["outcome"]) == ("denied", "changes"), found
    assert ASKED_ABOUT[code] in ["", *found["rehearsal"].get("texts", ())]


def test_of_code_that_failed_nothing_is_left_anywhere(shared: Kernel, folder: Path) -> None:
    code = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nprint(1)\ndf.nothing"
    found = look(shared, folder, code)
    assert (found["status"], found["decided_by"]) == ("failed", "rehearsal"), found
    assert "left" not in found["rehearsal"]
    assert "nothing that it did before the error was kept" in found["result"]["output"]


def test_a_library_that_is_not_there_is_no_question(shared: Kernel, folder: Path) -> None:
    found = look(shared, folder, "from nowhere_to_be_found.deep import model\nmodel")
    assert (found["status"], found["decided_by"]) == ("failed", "rehearsal"), found
    assert found["result"]["error"].startswith("ModuleNotFoundError: No module named")


def test_code_that_is_no_python_fails_at_once(shared: Kernel, folder: Path) -> None:
    found = look(shared, folder, "for")
    assert (found["status"], found["decided_by"]) == ("failed", "rehearsal"), found
    assert "SyntaxError" in found["result"]["error"]


def test_the_key_of_the_kernels_messages_is_not_there(shared: Kernel, folder: Path) -> None:
    key = shared.value("get_ipython().kernel.session.key.hex()").strip("'")
    assert len(key) > 30
    shared.run("from ipykernel.kernelapp import IPKernelApp as app")
    code = "assert 0, (app.instance().session.key.hex(), app.instance().session.sign([b'x']))"
    found = look(shared, folder, code)
    assert "('', b'')" in found["result"]["error"], found


KEYS = {
    "IPYAGENT_LLM__API_KEY": "9f8e7d6c5b4a",
    "IPYAGENT_STORE__URL": "postgresql://ada:9f8e7d6c5b4a@localhost/team",
    "IPYAGENT_CHAT__PERSIST": "false",
}


@pytest.mark.slow
def test_the_keys_of_the_settings_are_not_there(tmp_path: Path) -> None:
    """Redaction does not know what is written backwards."""
    code = """
from ipyagent.magic.notebook import Notebook
settings = get_ipython().meta[Notebook].settings
found = [each.values for each in settings._read[1]]
found += [[*each.config.secrets()] for _, each in settings._resolved]
assert not found, str(found)[::-1]
"""
    with kernel(tmp_path, **LOOKS, **KEYS) as started:
        started.run(f"%%agent {script(tmp_path, 'Done.')} --max-steps 2\nAnother resolution.")
        found = str(look(started, tmp_path, code))
    assert "AssertionError: ]" in found
    assert "a4b5c6d7e8f9" not in found


def test_the_kernel_goes_on_afterwards(shared: Kernel, folder: Path) -> None:
    for _ in range(5):
        found = look(shared, folder, "int(df.a.sum())")
        assert (found["decided_by"], found["result"]["output"]) == ("rehearsal", "6"), found
    assert shared.value("df.a.tolist()") == "[1, 2, 3]"
    shared.run("import os; mine = f'/proc/self/task/{os.getpid()}/children'")
    assert shared.value("open(mine).read()") == "''"
