"""Private names of other people's code may go with any release: each one in use has a reason."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from repository import parse_sources

REASONS = {
    ("imports.py", "_getframe"): "the interpreter's own way to the code that imports",
    ("kernel/capture.py", "_showtraceback"): "an `error` message leaks to the page without it",
    ("kernel/capture.py", "_DummyThread"): "a thread that was started without the class Thread",
    ("kernel/capture.py", "_exit"): "os._exit is documented",
    ("kernel/drivers.py", "_publish_status"): "frees the widgets of ipykernel 7.4; guarded",
    ("kernel/pages.py", "_msg_callback"): "handles messages without ending a cell; guarded",
    ("values/describe/library_objects.py", "_X"): "the matrix of AnnData; guarded",
    ("values/describe/libraries.py", "_crs"): "the projection of geometry; guarded",
    ("values/describe/libraries.py", "_df"): "a subclass's data without the subclass's methods",
    ("values/describe/libraries.py", "_from_pydf"): "a subclass's data as polars' own class",
    ("values/describe/libraries.py", "_from_pyseries"): "a subclass's data as polars' own class",
    ("values/describe/libraries.py", "_mgr"): "the memory of a frame at once; guarded",
    ("values/describe/libraries.py", "_s"): "a subclass's data without the subclass's methods",
    ("values/variables/tables.py", "_dtype"): "the labels of categories; guarded",
    ("values/variables/tables.py", "_mgr"): "all memory of a table; else nothing is rehearsed",
    ("values/variables/tables.py", "_ndarray"): "whether columns share memory; guarded",
    ("values/variables/tables.py", "_pa_array"): "whether columns share memory; guarded",
    ("rehearsal/on_copy.py", "_adjust_thread_count"): "starts a pool's threads; guarded",
    ("rehearsal/on_copy.py", "_idle_semaphore"): "counts a pool's lost threads",
    ("rehearsal/on_copy.py", "_threads"): "a pool's threads, lost on a copy",
    ("rehearsal/on_copy.py", "_work_queue"): "the one that lost threads wait for",
    ("rehearsal/watched_values.py", "_mgr"): "the cells of a table, of all columns at once",
    ("rehearsal/probe.py", "_exit"): "os._exit is documented",
    ("rehearsal/process.py", "_exit"): "os._exit is documented",
    ("llm/gateway.py", "_hidden_params"): "where LiteLLM keeps headers; guarded",
    ("services/mcp/transports.py", "_meta"): "a key of the messages of the protocol",
    ("services/mcp/transports.py", "_transport"): "asyncio has no public way to close the pipes",
    ("tools/fresh_kernel.py", "_exit"): "os._exit is documented",
    ("tools/sandbox/supervisor.py", "_exit"): "os._exit is documented",
    ("tools/tables/reader.py", "_exit"): "os._exit is documented",
    ("ui/card.py", "_reply_subshell_for"): "clicks reach a blocked kernel with it; guarded",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name.strip("_") != ""


def imported_private_names(tree: ast.AST) -> Iterator[str]:
    """Yield each import, from outside of the package, of a module or name with an underscore."""
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        for module in modules:
            first, *rest = module.split(".")
            if first != "ipyagent" and any(map(is_private, [first, *rest])):
                yield module


def defined_names(tree: ast.AST) -> Iterator[str]:
    """Yield what a module itself names: functions, classes, variables, attributes of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def used_private_names(tree: ast.AST) -> Iterator[str]:
    """Yield each attribute with an underscore that is read, set or named in a string."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if is_private(name):
                yield name
            case ast.Call(args=values) | ast.For(iter=ast.Tuple(elts=values)):
                texts = [each.value for each in values if isinstance(each, ast.Constant)]
                names = [each for each in texts if isinstance(each, str) and each.isidentifier()]
                yield from filter(is_private, names)


@cache
def foreign_private_names() -> set[tuple[str, str]]:
    """Return (file, name) of each private attribute that no module of the package defines."""
    trees = parse_sources()
    ours = {name for tree in trees.values() for name in defined_names(tree)}
    return {
        (path, name)
        for path, tree in trees.items()
        for name in used_private_names(tree)
        if name not in ours
    }


def test_no_private_module_or_name_of_another_distribution_is_imported() -> None:
    found = [
        f"{path}: {name}"
        for path, tree in parse_sources().items()
        for name in imported_private_names(tree)
    ]
    assert found == [], "use the public API, or a Protocol of our own where it is only for types"


def test_each_private_attribute_of_foreign_code_has_a_reason() -> None:
    assert foreign_private_names() - set(REASONS) == set(), "find a public way, or add a reason"


def test_no_reason_outlives_the_name_that_it_is_for() -> None:
    assert set(REASONS) - foreign_private_names() == set()


@pytest.mark.parametrize(
    "code",
    [
        "from mcp.client._transport import ReadStream",
        "import anyio._core",
        "from re import _parser",
    ],
)
def test_a_private_import_is_seen(code: str) -> None:
    assert list(imported_private_names(ast.parse(code)))


@pytest.mark.parametrize("code", ["shell._x()", "getattr(shell, '_x', None)", "patch(s, '_x', 1)"])
def test_a_private_attribute_is_seen(code: str) -> None:
    assert list(used_private_names(ast.parse(code))) == ["_x"]
