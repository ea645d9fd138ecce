"""Static analysis of code and commands: the effects of a call, as far as they can be read.

It names effects on the approval card and limits what "Always" covers. It is not a sandbox: Python
cannot be judged by reading, so nothing is called safe or runs without asking because of it.

Here are the effects, and tables of the names by which they are known. A library that is not listed
is unknown; so is a part of a listed one that leads to another module.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ipyagent.plaintext import ellipsize, excerpt, flatten, join_words, spell, visible, word_set

READS = "files (reads)"
WRITES = "files (writes)"
NETWORK = "network"
PROCESSES = "processes"
ENVIRONMENT = "environment"
UNKNOWN_EFFECTS = "cannot be determined"

ORDER = (UNKNOWN_EFFECTS, NETWORK, PROCESSES, WRITES, READS, ENVIRONMENT)
"""The kinds, the gravest first."""

_DOES = {
    READS: "reads files",
    WRITES: "writes files",
    NETWORK: "uses the network",
    PROCESSES: "starts processes",
    ENVIRONMENT: "reads the environment",
}
_LONGEST = 60


@dataclass(frozen=True)
class Effects:
    """The effects of a call beside variables, each with the words that show it.

    `names` are the variables that it loads and `paths` the files that it names; `redefines` are the
    existing variables that it assigns. `lasting` says why what it may change
    inside of variables cannot be taken back.
    """

    touches: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    redefines: tuple[str, ...] = ()
    subject: str = "code"
    lasting: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    """The code that has them, where the arguments of the call only name it."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds touched, without the words."""
        return frozenset(self.touches)

    @property
    def is_known(self) -> bool:
        """True if static analysis can name all effects."""
        return UNKNOWN_EFFECTS not in self.touches

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that the call reads beside variables, as far as it names them."""
        if not self.kinds - {WRITES, ENVIRONMENT}:
            return ()
        return tuple(map(_name_source, self.paths)) or ("the output of code",)

    def summary(self) -> str:
        """Return the effects in a line such as "touches: network (requests); redefines df"."""
        named = ", ".join(
            _format_kind(kind, self.touches[kind]) for kind in sort_kinds(self.touches)
        )
        lasting = (f"⚠ {visible(name)}: {why}" for name, why in self.lasting.items())
        touches = f"touches: {named}" if named else ""
        parts = [touches, describe_redefined(self.redefines), *lasting]
        return "; ".join(part for part in parts if part)

    def describe_beyond(self, kinds: Collection[str]) -> str:
        """Return the effects beyond `kinds`, in words; "" if there are none."""
        more = [kind for kind in sort_kinds(self.touches) if kind not in kinds]
        return ", ".join(_format_kind(kind, self.touches[kind]) for kind in more)


def _name_source(text: str) -> str:
    """Return the name of what a reader is given: a file, an address or a query."""
    is_query = re.match(r"(?i)\s*(?:select|with)\s", text)
    return f"the answer to “{excerpt(text, _LONGEST)}”" if is_query else spell(text)


def describe_redefined(names: Collection[str]) -> str:
    """Return "redefines df and x", or ""."""
    some = [visible(name) for name in list(names)[:3]]
    more = [f"{len(names) - 3} more"] if len(names) > 3 else []
    return f"redefines {', '.join([*some, *more])}" if some else ""


def sort_kinds(kinds: Collection[str]) -> list[str]:
    """Return the kinds, the gravest first."""
    rank = {kind: n for n, kind in enumerate(ORDER)}
    return sorted(kinds, key=lambda kind: (rank.get(kind, len(ORDER)), kind))


def describe_coverage(subject: str, kinds: Collection[str]) -> str:
    """Return the reach of an approval beyond one call: "code that only works on variables"."""
    if subject == "commands":
        return "commands that only run " + join_words(sorted(kinds))
    does = [_DOES.get(kind, kind) for kind in sort_kinds(kinds)]
    base = "only works on variables" if subject == "code" else "only computes"
    if not does:
        return f"{subject} that {base}"
    return f"{subject} that {', '.join(does)}"


def _format_kind(kind: str, shown: str) -> str:
    text = ellipsize(flatten(shown), _LONGEST)
    return f"{kind} ({text})" if text else kind


_PLAIN = re.compile(r"[\w./:=,@%+~^ \t'\"{}*?\[\]-]*")
"""Words, quotes and globs: nothing that runs, redirects or expands something else."""
_RUN_OTHERS = word_set(
    "ash awk bash busybox bun bunx chroot crontab dash deno doas docker env exec eval expect find "
    "fish flock gawk gdb git-shell ionice java julia ksh lua make mawk nice node nohup npm npx "
    "nsenter osascript parallel perl php pip pip3 pipx pnpm podman pwsh python python3 R Rscript "
    "ruby script sed setsid sh source ssh strace su sudo systemd-run tclsh time timeout tmux "
    "unshare uv uvx vi vim watch xargs yarn zsh"
)


def analyze_command(command: str) -> Effects:
    """Return the program that a command runs; a command of several is unknown."""
    program, why = _find_program(command)
    return Effects({program: ""} if program else {UNKNOWN_EFFECTS: why}, subject="commands")


def _find_program(command: str) -> tuple[str, str]:
    if not _PLAIN.fullmatch(command):
        return "", "more than one plain command"
    try:
        words = shlex.split(command)
    except ValueError:
        return "", "its quotes do not match"
    if not words or "=" in words[0] or not re.fullmatch(r"[\w.+-]+", words[0]):
        return "", "its program is not named plainly"
    name = re.sub(r"[\d.]+$", "", words[0])
    if words[0] in _RUN_OTHERS or name in _RUN_OTHERS:
        return "", f"{words[0]} can run anything"
    return words[0], ""


PLAIN = word_set(
    "math cmath statistics random decimal fractions datetime calendar time zoneinfo dateutil pytz "
    "itertools functools operator collections heapq bisect array copy enum dataclasses typing "
    "typing_extensions string textwrap re unicodedata difflib pprint json csv struct hashlib hmac "
    "secrets uuid numbers abc contextlib io warnings traceback graphlib keyword html colorsys "
    "cycler numpy pandas polars scipy sklearn statsmodels matplotlib mpl_toolkits seaborn plotly "
    "altair bokeh holoviews hvplot xgboost lightgbm catboost sympy networkx pyarrow tqdm tabulate "
    "missingno torch pingouin shapely geopandas xarray IPython ipywidgets wordcloud bs4 "
    "prettytable humanize skimage cv2 PIL umap prophet lifelines rich yaml toml tomllib h5py "
    "openpyxl __future__ great_tables scikit_posthocs imblearn category_encoders plotnine"
)
"""Libraries that work on their arguments, except for the names below."""

_MODULES = {
    NETWORK: "requests httpx urllib urllib3 aiohttp socket ssl http ftplib smtplib poplib imaplib "
    "nntplib telnetlib xmlrpc socketserver websockets websocket boto3 botocore s3fs gcsfs adlfs "
    "paramiko fabric google azure openai anthropic litellm huggingface_hub datasets transformers "
    "kaggle yfinance pandas_datareader tweepy slack_sdk telegram psycopg psycopg2 pymysql "
    "mysql pymongo redis elasticsearch kafka grpc dns webbrowser wikipedia sqlalchemy pyodbc "
    "oracledb snowflake wandb mlflow zmq pycurl asyncpg motor",
    PROCESSES: "subprocess multiprocessing ctypes cffi signal pty pexpect sh plumbum concurrent "
    "threading _thread sched atexit psutil joblib dask ray resource posix nt",
    UNKNOWN_EFFECTS: "pickle dill cloudpickle marshal shelve importlib imp runpy code codeop "
    "inspect builtins types gc ast dis weakref base64 binascii codecs zlib timeit pdb bdb "
    "cProfile profile trace unittest doctest ipyagent ipykernel numexpr numba cython cppyy site "
    "sysconfig zipimport pkgutil pkg_resources setuptools pip copyreg faulthandler tracemalloc "
    "symtable tokenize",
    READS: "glob fileinput linecache",
    WRITES: "shutil tempfile zipfile tarfile gzip bz2 lzma sqlite3 dbm duckdb netCDF4 tables "
    "logging",
    ENVIRONMENT: "getpass keyring dotenv platform pwd grp",
}
MODULES = {name: kind for kind, names in _MODULES.items() for name in names.split()}
"""Libraries that touch something whatever is used of them."""

_NAMES = {
    READS: "os.listdir os.scandir os.walk os.stat os.lstat os.access os.path.exists os.path.isfile "
    "os.path.isdir os.path.getsize os.path.getmtime os.path.islink os.path.realpath "
    "matplotlib.pyplot.imread cv2.imread PIL.Image.open numpy.loadtxt numpy.genfromtxt "
    "numpy.fromfile numpy.memmap pandas.ExcelFile h5py.File openpyxl.load_workbook "
    "pyarrow.parquet.ParquetFile pyarrow.memory_map pyarrow.input_stream pyarrow.dataset "
    "matplotlib.rc_file matplotlib.style.use matplotlib.pyplot.style matplotlib.cbook "
    "matplotlib.image.imread matplotlib.font_manager skimage.io.imread cv2.VideoCapture "
    "PIL.ImageFont.truetype "
    "polars.sql polars.SQLContext pandas.read_clipboard",
    WRITES: "os.remove os.unlink os.rename os.renames os.replace os.mkdir os.makedirs os.rmdir "
    "os.removedirs os.chdir os.chmod os.chown os.link os.symlink os.truncate os.utime os.mkfifo "
    "numpy.save numpy.savez numpy.savez_compressed numpy.savetxt numpy.memmap h5py.File "
    "matplotlib.pyplot.savefig matplotlib.pyplot.imsave cv2.imwrite cv2.VideoWriter "
    "pandas.ExcelWriter pandas.HDFStore torch.save io.FileIO openpyxl.Workbook "
    "pyarrow.OSFile pyarrow.memory_map pyarrow.output_stream polars.Config polars.SQLContext "
    "bokeh.io.output_file bokeh.plotting.output_file plotly.offline pandas.show_versions "
    "matplotlib.backends scipy.io.savemat scipy.io.wavfile.write",
    NETWORK: "torch.hub seaborn.load_dataset seaborn.get_dataset_names numpy.DataSource "
    "sklearn.datasets.fetch_openml pandas.io.gbq pyarrow.fs pyarrow.flight "
    "pyarrow.dataset scipy.datasets statsmodels.api.datasets.get_rdataset "
    "statsmodels.datasets.get_rdataset statsmodels.datasets.webuse cv2.VideoCapture "
    "skimage.io.imread bokeh.sampledata polars.sql polars.SQLContext tqdm.contrib",
    PROCESSES: "os.system os.popen os.fork os.forkpty os.kill os.killpg os.startfile os.abort "
    "os._exit os.execv os.execl os.execve os.execvp os.execlp os.spawnl os.spawnv os.spawnlp "
    "os.spawnvp os.posix_spawn os.posix_spawnp os.nice numpy.ctypeslib numpy.f2py "
    "matplotlib.texmanager pandas.read_clipboard",
    ENVIRONMENT: "os.environ os.environb os.getenv os.putenv os.unsetenv os.getlogin os.uname "
    "sys.argv",
    UNKNOWN_EFFECTS: "torch.load torch.utils.cpp_extension torch.jit torch.ops pandas.read_pickle "
    "pandas.eval operator.attrgetter operator.methodcaller yaml.load yaml.unsafe_load "
    "yaml.full_load yaml.load_all yaml.UnsafeLoader yaml.Loader numpy.lib.npyio "
    "numpy.distutils numpy.testing IPython.get_ipython IPython.core "
    "statsmodels.formula "
    "sympy.sympify sympy.parse_expr sympy.lambdify scipy.weave functools.singledispatch "
    "contextlib.ExitStack io.open_code PIL.ImageShow PIL.ImageGrab PIL.ImageMath cv2.dnn "
    "IPython.utils IPython.embed IPython.lib IPython.start_ipython IPython.extensions "
    "pandas.api.extensions pandas.test pandas.util numpy.loads numpy.test pyarrow.deserialize "
    "pyarrow.deserialize_from sklearn.externals matplotlib.testing polars.DataFrame.deserialize "
    "polars.LazyFrame.deserialize bokeh.util",
}
NAMES: dict[str, frozenset[str]] = {}
"""Parts of libraries, by their full names."""
for _kind, _text in _NAMES.items():
    for _name in _text.split():
        NAMES[_name] = NAMES.get(_name, frozenset()) | {_kind}

HARMLESS = word_set(
    "os.path os.path.join os.path.basename os.path.dirname os.path.splitext os.path.split "
    "os.path.normpath os.path.sep os.path.commonprefix os.getcwd os.getpid os.cpu_count os.sep "
    "os.linesep os.name os.fspath os.PathLike os.times "
    "sys.version sys.version_info sys.maxsize sys.platform sys.float_info sys.getsizeof "
    "sys.byteorder sys.getrecursionlimit sys.int_info sys.implementation sys.stdout sys.stderr "
    "asyncio.sleep asyncio.gather asyncio.run asyncio.wait_for asyncio.timeout"
)
"""Harmless parts of modules that are otherwise not."""

METHODS = {
    WRITES: word_set(
        "to_csv to_excel to_parquet to_pickle to_feather to_hdf to_json to_html to_latex to_stata "
        "to_orc to_xml to_markdown to_netcdf to_zarr to_file to_disk write_csv write_parquet "
        "write_excel write_json write_ndjson write_ipc write_avro write_delta sink_csv "
        "sink_parquet sink_ipc sink_ndjson write_text write_bytes write_html write_image "
        "write_table write_feather write_dataset savefig save save_model savez savetxt imsave "
        "serialize to_string savemat mmwrite thumbnail "
        "tofile dump dump_model mkdir rmdir unlink symlink_to hardlink_to touch chmod "
        "extractall makedirs writelines write imwrite writestr to_clipboard to_sql to_gbq"
    ),
    READS: word_set("read_text read_bytes iterdir glob rglob is_file is_dir exists"),
    NETWORK: word_set(
        "urlopen urlretrieve to_sql to_gbq read_sql read_sql_query read_sql_table read_gbq "
        "read_database read_database_uri sendmail send_message connect"
    ),
    PROCESSES: word_set(
        "system popen Popen check_output check_call getoutput getstatusoutput spawn fork startfile"
    ),
    ENVIRONMENT: word_set("environ getenv"),
    UNKNOWN_EFFECTS: word_set(
        "os sys subprocess builtins importlib shutil ctypes socket pickle marshal import_module "
        "load_module exec_module f_globals f_locals f_builtins gi_frame cr_frame ag_frame tb_frame "
        "f_back gi_code co_code func_globals mro run_cell run_line_magic run_cell_magic ex "
        "getoutput user_ns read_pickle allow_pickle HTML Javascript"
    ),
}
"""Methods and attributes of objects of any kind."""

WRITERS = (
    "write_",
    "save_",
    "dump_",
    "sink_",
    "print_figure",
    "print_pn",
    "print_pdf",
    "print_svg",
)
"""Prefixes of functions that write files."""

TO_TEXT = word_set("to_json to_html to_latex to_markdown to_csv to_xml to_string dumps")
"""Methods that write a file only if they are given one."""

NO_READERS = word_set(
    "load_iris load_wine load_breast_cancer load_digits load_diabetes load_linnerud loads "
    "read_clipboard load_sample_images"
)

BUILTINS = {
    UNKNOWN_EFFECTS: word_set(
        "exec eval compile __import__ globals locals vars setattr delattr breakpoint input exit "
        "quit get_ipython memoryview _ __"
    )
}
_OWN_PARTS = word_set("trace signal types code profile resource select")
OTHER_MODULES = frozenset(MODULES) & sys.stdlib_module_names - _OWN_PARTS
"""Standard modules that a library re-exports; it has parts of its own by the other names."""

PATHS = word_set("pathlib.Path pathlib.PurePath pathlib.PosixPath pathlib.WindowsPath")
BUFFERS = word_set("io.StringIO io.BytesIO")
PATH_WRITES = word_set("rename replace")
PATH_READS = word_set("open stat lstat resolve owner samefile walk cwd home expanduser")
FUNCTIONS_BY_NAME = word_set("apply agg aggregate transform map pipe applymap")
CALLS = word_set("query eval")
"""Methods that evaluate a text as an expression."""


def reads_input(name: str) -> bool:
    """Return whether a function of that name reads the file or address that it is given."""
    if name in NO_READERS:
        return False
    return name == "load" or name.startswith(("read_", "scan_", "load_", "open_", "fetch_"))


def kinds_touched_by(name: str) -> list[str]:
    """Return the effects of a method or attribute of that name."""
    kinds = [kind for kind, names in METHODS.items() if name in names]
    if name.startswith(WRITERS) and WRITES not in kinds:
        kinds.append(WRITES)
    return kinds


def leads_elsewhere(part: str) -> bool:
    """Return whether a part of a library leads to another module."""
    return part.startswith("_") or part in METHODS[UNKNOWN_EFFECTS] | OTHER_MODULES


def takes_code(node: ast.Call) -> bool:
    """Return whether a call names a module to draw with, or shows data that a page may run."""
    backends = {None, "matplotlib", "plotly", "agg"}
    named = any(
        not isinstance(value, ast.Constant) or value.value not in backends
        for value in keyword_values(node, "backend")
    )
    name = called_name(node.func)
    raw = name == "display" and bool(keyword_values(node, "raw", None))
    return named or raw or name in {"publish_display_data", "display_javascript", "display_html"}


def called_name(func: ast.expr) -> str:
    """Return the last name of the callee; empty if it has none."""
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def keyword_values(node: ast.Call, *names: str | None) -> list[ast.expr]:
    """Return the values given by one of these names; None: by `**`."""
    return [each.value for each in node.keywords if each.arg in names]
