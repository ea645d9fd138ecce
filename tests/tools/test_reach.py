"""Reading code and commands: what they touch, as far as reading can tell.

Reading is no boundary. These cases say what it names; whatever it does not know it must call
unreadable, because "Always" covers what it says.
"""

import contextlib
import functools
import io
import math
import pathlib
import re
import types
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from IPython.display import HTML

from ipyagent.tools.static_analysis import (
    ENVIRONMENT,
    NETWORK,
    PROCESSES,
    READS,
    WRITES,
    analyze_command,
    describe_coverage,
)
from ipyagent.tools.static_analysis.code import analyze_code


def helper() -> None: ...


class Own:
    x = 1


class Tricky(list[int]):
    def __getitem__(self, at: object) -> object:
        return at


helper.__module__ = Own.__module__ = Tricky.__module__ = "__main__"

VARIABLES = {
    "pd": pd,
    "np": np,
    "math": math,
    "re": re,
    "df": pd.DataFrame({"a": [1], "b": ["x"]}),
    "sales": pd.Series([1]),
    "xs": [1, 2],
    "name": "sales.csv",
    "url": "https://x.example/a.csv",
    "where": pathlib.Path("a.csv"),
    "helper": helper,
    "own": Own(),
    "Own": Own,
    "handlers": {"a": helper},
    "fake": types.ModuleType("numpy"),
    "sqrt": math.sqrt,
    "lazy": (n for n in range(3)),
    "bound": functools.partial(helper),
    "waiting": map(helper, [1]),
    "filled": defaultdict(helper),
    "counted": defaultdict(int),
    "closing": contextlib.closing(io.StringIO()),
    "functions": pd.Series([helper]),
    "objects": pd.DataFrame({"o": [Own()]}),
    "each_of": np.vectorize(helper),
    "tricky": Tricky(),
    "text": io.StringIO("a,b"),
    "Shown": HTML,
}

PLOT = "import matplotlib.pyplot as plt\n"
ONLY_VARIABLES = [
    "df.head()",
    "df['c'] = df.a * 2\ndf.describe()",
    "df.groupby('b').agg({'a': ['mean', 'sum']}).reset_index()",
    "df.groupby('b')['a'].agg('mean')",
    "df.agg('mean', str(1) + '')",
    "df.rename(columns={'a': 'z'}).replace(1, 2)",
    "df[df.a > 0].sort_values('a', ascending=False).nlargest(3, 'a')",
    "pd.merge(df, df, on='a').pivot_table(index='b', values='a_x')",
    "df['b'].map({'x': 1}).fillna(0).astype(int)",
    "df.apply(lambda row: row.a + 1, axis=1)",
    "def double(v):\n    return v * 2\ndf.a.apply(double)",
    "df.query('a > 1 and b == @name')",
    "df.eval('c = a + 1')",
    "df.columns = ['p', 'q']",
    "pd.options.display.max_rows = 20\npd.set_option('display.width', 200)",
    "pd.to_datetime(['2024-01-01']).month",
    "import pandas as pd, numpy as np\nnp.random.default_rng(0).normal(size=3).mean()",
    "np.linalg.inv(np.eye(3)) @ np.ones(3)",
    "np.array(xs).reshape(-1, 1)",
    f"{PLOT}fig, ax = plt.subplots()\nax.bar(df.b, df.a)\nax.set_title('Revenue')\nplt.show()",
    f"{PLOT}plt.rcParams['figure.figsize'] = (4, 3)\ndf.plot.bar(x='b')\nplt.tight_layout()",
    "import seaborn as sns\nsns.set_theme()\nsns.histplot(df, x='a')",
    "from scipy import stats\nstats.ttest_ind(df.a, df.a)",
    "from sklearn.linear_model import LinearRegression\n"
    "model = LinearRegression().fit(df[['a']], df.a)\nmodel.predict(df[['a']])",
    "from sklearn.datasets import load_iris\nload_iris().data.mean()",
    "from collections import Counter\nCounter(df.b).most_common(3)",
    "from collections import namedtuple\nPoint = namedtuple('Point', 'x y')\nPoint(1, 2)._asdict()",
    "import json\njson.dumps({'a': 1})",
    "import re\nre.sub('a', 'b', 'abc')",
    "for label, part in df.groupby('b'):\n    print(label, len(part))",
    "total = sum(x for x in xs if x)\nprint(f'{total:.2f} in all')",
    "df.to_json(orient='records')",
    "df.to_markdown()",
    "import io\npd.read_csv(io.StringIO('a,b\\n1,2'))",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    print(error)",
    "class Total:\n    def __init__(self, n):\n        self.n = n\n        self._m = n\nTotal(3).n",
    "getattr(df, 'a')",
    "sqrt(4) + math.pi",
    "import asyncio\nawait asyncio.sleep(0)",
    "from datetime import date\ndate.today().isoformat()",
    "import os\nos.path.join('a', 'b')",
    "import sys\nsys.version_info >= (3, 11)",
    "display(df)",
    "df.query('(a > 1) and not (b == @name or b in [\"x\"])')",
    "df.to_string()",
    "df.plot(backend='matplotlib')",
    "df[df.b == 'https://x.example']",
    "np.array(['https://x.example'])",
    "x = 3\nx",
    "",
]


@pytest.mark.parametrize("code", ONLY_VARIABLES)
def test_ordinary_analysis_works_on_variables_only(code: str) -> None:
    assert analyze_code(code, VARIABLES).touches == {}


TOUCHING = [
    ("pd.read_csv('sales.csv')", {READS}),
    ("pd.read_csv(name)", {READS}),
    ("path = 'a.csv'\npd.read_csv(path)", {READS}),
    ("pd.read_excel(where)", {READS}),
    ("pd.read_csv(f'data/{name}')", {READS}),
    ("open('a.txt').read()", {READS}),
    ("with open('a.json') as f:\n    import json\n    json.load(f)", {READS}),
    ("import os\nos.listdir('.')", {READS}),
    ("import glob\nglob.glob('*')", {READS}),
    ("where.read_text()", {READS}),
    ("np.load('a.npy')", {READS}),
    ("from pathlib import Path\n[p.name for p in Path('.').glob('*')]", {READS}),
    ("df.to_csv('out.csv')", {WRITES}),
    ("df.to_json('out.json')", {WRITES}),
    ("df.to_json(orient=open('a', 'w').name)", {WRITES}),
    ("df.agg('to_csv')", {WRITES}),
    ("df.to_csv(**{'path_or_buf': 'out.csv'})", {WRITES}),
    ("df.to_string('out.txt')", {WRITES}),
    ("df.to_string(buf='out.txt')", {WRITES}),
    (f"{PLOT}plt.gcf().canvas.print_figure('a.png')", {WRITES}),
    ("import networkx as nx\nnx.write_gml(1, 'a.gml')", {WRITES}),
    ("import plotly\nplotly.offline.plot({}, filename='a.html')", {WRITES}),
    (f"{PLOT}plt.style.use('a.mplstyle')", {READS}),
    ("from IPython.display import Image\nImage('https://x/a.png')", {NETWORK}),
    ("from IPython.display import Image\nImage(url=name)", {NETWORK}),
    ("import altair as alt\nalt.Chart(url)", {NETWORK}),
    ("import statsmodels.api as sm\nsm.datasets.get_rdataset('x')", {NETWORK}),
    ("open('a.txt', 'w').write('x')", {WRITES}),
    ("open('a.txt', mode='ab')", {WRITES}),
    ("open('a.txt', 'r+')", {READS, WRITES}),
    ("from pathlib import Path\nPath('x').write_text('y')", {WRITES}),
    ("(where / 'x').rename('y')", {WRITES}),
    ("import shutil\nshutil.rmtree('x')", {WRITES}),
    ("import os\nos.remove('x')", {WRITES}),
    (f"{PLOT}plt.gcf().savefig('a.png')", {WRITES}),
    ("pd.DataFrame.to_csv", {WRITES}),
    ("import sqlite3\nsqlite3.connect('a.db')", {WRITES}),
    ("import requests\nrequests.get('https://x')", {NETWORK}),
    ("from urllib.request import urlopen\nurlopen('https://x')", {NETWORK}),
    ("pd.read_csv('https://x/a.csv')", {NETWORK}),
    ("from sklearn.datasets import fetch_california_housing as q\nq()", {NETWORK}),
    ("import sklearn.datasets as d\nload = d.fetch_20newsgroups\nload()", {NETWORK}),
    ("pd.read_csv(url)", {NETWORK}),
    ("pd.read_csv('a' + name)", {READS, NETWORK}),
    ("df.to_sql('t', con=1)", {WRITES, NETWORK}),
    ("import seaborn as sns\nsns.load_dataset('iris')", {READS, NETWORK}),
    (
        "from sklearn.datasets import fetch_california_housing\nfetch_california_housing()",
        {NETWORK},
    ),
    ("import subprocess\nsubprocess.run(['ls'])", {PROCESSES}),
    ("import os\nos.system('ls')", {PROCESSES}),
    ("import os\nf = os.system\nf('ls')", {PROCESSES}),
    ("from os import system as s\ns('ls')", {PROCESSES}),
    ("import atexit\natexit.register(print)", {PROCESSES}),
    ("import threading\nthreading.Timer(9, print).start()", {PROCESSES}),
    ("import os\nos.environ['HOME']", {ENVIRONMENT}),
]


@pytest.mark.parametrize(("code", "kinds"), TOUCHING)
def test_what_code_touches_is_named(code: str, kinds: set[str]) -> None:
    assert analyze_code(code, VARIABLES).kinds == kinds


UNREAD = [
    "exec('x = 1')",
    "__import__('os').system('ls')",
    "import importlib\nimportlib.import_module('os')",
    "__builtins__['eval']",
    "globals()['x']",
    "getattr(df, 'to_' + 'csv')('x')",
    "from functools import reduce\nreduce(getattr, ['io', 'common', 'os'], pd)",
    "import operator\noperator.attrgetter('io.common.os')(pd)",
    "setattr(pd, 'read_csv', print)",
    "pd.read_csv = print",
    "pd.DataFrame.head = print",
    "pd.io.common.os.system('ls')",
    "p = pd\np.io.common.os.system('ls')",
    "[pd][0].io.common.os.system('ls')",
    "for m in [pd]:\n    m.io.common.os.system('ls')",
    "np.lib.npyio.os.system('ls')",
    "import matplotlib.pyplot as plt\nplt.os.getcwd()",
    'df.query(\'@__import__("os").system("ls")\')',
    "df.query('@helper()')",
    "df.query(name)",
    "df.query('a.to_csv(\"x\")')",
    "df.query('a.isin([1, 2])')",
    "counted['a'] += 1",
    "import statsmodels.formula.api as smf\nsmf.ols('a ~ b', df)",
    "from IPython.display import HTML\nHTML('x')",
    "Shown('<script>1</script>')",
    "df.eval('c = b.to_json(\"x\")')",
    "df.query('a.map(@helper)')",
    "df.eval('b.apply(@bound)')",
    "df.query('a == @handlers[\"a\"](1)')",
    "df.b.apply(bound)",
    "max(['a'], key=bound)",
    "df.b.apply(each_of)",
    "list(waiting)",
    "filled['a']",
    "with closing:\n    pass",
    "functions.apply(lambda f: f('a'))",
    "objects",
    "tricky[0]",
    "def run(f):\n    return f('a')\nrun(print)",
    "import json\njson.codecs.open('x', 'w')",
    "df.plot(backend='a_module')",
    "df.hist(backend=name)",
    "pd.set_option('plotting.backend', 'a_module')",
    "import matplotlib as mpl\nmpl.use('module://a_module')",
    f"{PLOT}plt.rcParams['text.usetex'] = True",
    f"{PLOT}plt.rcParams['savefig.directory'] = '/tmp'",
    f"{PLOT}plt.text(0, 0, '$x$', usetex=True)",
    f"{PLOT}plt.title('x', usetex=name)",
    f"{PLOT}plt.rc('text', usetex=1)",
    f"{PLOT}plt.title('x').set_usetex(True)",
    "pd.options.plotting.backend = 'a_module'",
    "@pd.api.extensions.register_dataframe_accessor('z')\nclass Z:\n    pass",
    "import statsmodels.formula.api as smf\nsmf.ols('a ~ helper(b)', df)",
    "import statsmodels.formula.api as smf\nsmf.ols(name + '~ a', df)",
    "import patsy\npatsy.dmatrix('a.to_csv(1)', df)",
    "from IPython.display import HTML\nHTML('<script>1</script>')",
    "from IPython.display import HTML\nHTML('<scr' + 'ipt>1</script>')",
    "import ipywidgets\nipywidgets.HTML('<img onerror=1>')",
    "display({'application/javascript': '1'}, raw=True)",
    "display({'text/html': name}, **{'raw': True})",
    "from IPython.display import publish_display_data\npublish_display_data({})",
    "from IPython import embed\nembed()",
    "pd.eval('1')",
    "np.load('a.npy', allow_pickle=True)",
    "np.load('a.npy', allow_pickle=name)",
    "import pickle\npickle.loads(b'')",
    "import ipyagent",
    "().__class__.__base__.__subclasses__()",
    "'{0.__class__}'.format(df)",
    "(lambda: 0).__globals__",
    "import sys\nsys.modules['os']",
    "from os import *",
    "from numpy import *",
    "from . import thing",
    "import a_library_that_nobody_lists",
    "helper()",
    "df.a.apply(helper)",
    "own.x",
    "Own()",
    "handlers['a']()",
    "for f in xs:\n    f()",
    "list(lazy)",
    "fake.system('ls')",
    "unknown_name",
    "ls",
    "get_ipython().system('ls')",
    "%timeit 1",
    "!ls",
    "%%bash\nls",
    "df?",
    "def f(:",
    "x = '\0'",
    "df.agg('to_' + 'csv')",
    "df._mgr",
    "import builtins\nbuiltins.exec('1')",
    "type(df).mro()",
    "(x for x in xs).gi_frame.f_globals",
    "x = " + "(" * 300 + ")" * 300,
    "1\n" * 200_001,
]


@pytest.mark.parametrize("code", UNREAD, ids=lambda code: code[:40])
def test_what_cannot_be_told_is_called_so(code: str) -> None:
    assert not analyze_code(code, VARIABLES).is_known


def test_reading_runs_nothing_of_the_variables() -> None:
    class Loud:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError("it was asked")

        __iter__ = __len__ = __eq__ = __hash__ = __getattribute__

    assert not analyze_code("x + 1\nx.y()", {"x": Loud()}).is_known


def test_it_names_what_is_loaded_read_and_redefined() -> None:
    code = "df = pd.read_csv('b.csv')\nnew = sales + 1\ndef helper(): ...\nimport numpy as np"
    reach = analyze_code(code, VARIABLES)
    assert (reach.variables, reach.paths) == (("pd", "sales"), ("b.csv",))
    assert set(reach.redefines) == {"df", "helper"}
    assert reach.summary() == "touches: files (reads) (pd.read_csv('b.csv')); redefines df, helper"
    assert (
        analyze_code("a = b = c = d = 1", dict.fromkeys("abcd")).summary()
        == "redefines a, b, c, 1 more"
    )
    assert analyze_code("1", {}).summary() == ""


@pytest.mark.parametrize(
    ("command", "program"),
    [("git status", "git"), ("ls -l 'a b'", "ls"), ("grep -n x *.py", "grep")],
)
def test_a_command_of_one_program_is_named(command: str, program: str) -> None:
    assert analyze_command(command).kinds == {program}


SEVERAL = [
    "", "a; b", "a && b", "a | b", "a & b", "a > b", "a < b", "$(a) b", "a `b`", "a $HOME", "X=1 a",
    "a\nb", "(a)", "/tmp/a", "./a", "a \\b", "'", "#a",
    "python x.py", "python3.12 -c 1", "bash x", "env a", "xargs rm", "sudo a", "find . -delete",
    "npx a", "awk 1",
]  # fmt: skip


@pytest.mark.parametrize("command", SEVERAL)
def test_a_command_of_several_or_of_what_runs_others_is_not(command: str) -> None:
    assert not analyze_command(command).is_known


def test_what_is_covered_is_said_in_words() -> None:
    assert describe_coverage("code", ()) == "code that only works on variables"
    assert describe_coverage("code", {READS, NETWORK}) == "code that uses the network, reads files"
    assert describe_coverage("script code", ()) == "script code that only computes"
    assert describe_coverage("commands", {"git"}) == "commands that only run git"
