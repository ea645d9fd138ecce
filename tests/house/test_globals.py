"""State of a module outlives every run and has no owner: each such name has a reason to be one."""

import ast
from collections.abc import Iterator

import pytest

from repository import parse_sources

REASONS = {
    "ipyagent.agent.session provider": "the hook of a lower room: its session",
    "ipyagent.schema.runs freeze_run": "the hook of a lower room: set once, at the import",
    "ipyagent.schema.runs replay_run": "the hook of a lower room: set once, at the import",
    "ipyagent.schema.runs undo_run": "the hook of a lower room: set once, at the import",
    "kernel/capture.py _numbers": "names of code in linecache, which the process has one of",
    "kernel/threads.py EngineThread._current": "the process has one thread of all runs",
    "kernel/threads.py LoopThread._lock": "of the threads below",
    "kernel/threads.py cls._current": "the process has one thread of each kind",
    "kernel/interrupt.py _signals": "the process has one handler of SIGINT",
    "kernel/interrupt.py _watches": "the process has one wakeup descriptor",
    "kernel/threads.py _turn": "the process has one main thread",
    "kernel/threads.py _known": "how many of the loggers of the process have our filter",
    "kernel/threads.py _NOT_REMINDED": "filled by decorators, at imports",
    "kernel/threads.py _UNINTERRUPTIBLE": "filled by decorators, at imports",
    "llm/direct/client.py _clients": "an HTTP client lives as long as its event loop",
    "llm/gateway.py _before": "LiteLLM's own switch is global, and goes back to this",
    "llm/gateway.py _depth": "of our calls, while LiteLLM's global switch is set",
    "llm/gateway.py _filter": "the process has one list of warnings filters",
    "llm/gateway.py _lock": "of the thread below",
    "llm/gateway.py _silence_lock": "of LiteLLM's global switch",
    "llm/gateway.py _thread": "the process imports LiteLLM once",
    "store/sessions.py _all": "a fork concerns all: its hook stays with the process",
    "store/postgres.py _all": "a fork concerns all: its hook stays with the process",
    "store/database.py _all": "all are closed at the end of the process",
    "tools/argument_schema.py _own_schemas": "a cache of facts about our own code",
    "tools/tables/__init__.py table_reader": "one for the process: it outlives runs",
    "wiring/runtime.py _runtime": "the owner",
}
"""Why each is no part of `Runtime`: it belongs to the process, or to a lower room alone."""

STATEFUL = {
    *("Condition", "Counter", "Event", "Future", "Lock", "OrderedDict", "Queue", "RLock"),
    *("SimpleQueue", "ThreadPoolExecutor", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary"),
    *("count", "defaultdict", "deque", "local"),
}
"""Classes of Python's own whose instances are there to change; a ContextVar belongs to a task."""

CONTAINERS = {"dict", "dictcomp", "list", "listcomp", "set", "setcomp"}
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("popleft", "remove", "setdefault", "update"),
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def changed_places(tree: ast.AST) -> set[tuple[str, str]]:
    """Return what a tree changes: the names before the dots, each with the attribute behind it."""
    places = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store()):
                places.add(split_place(node))
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in CHANGES:
                places.add(split_place(value))
    return places


def split_place(place: ast.expr) -> tuple[str, str]:
    attribute = ""
    while isinstance(place, ast.Subscript | ast.Attribute):
        attribute = place.attr if isinstance(place, ast.Attribute) else attribute
        place = place.value
    return (place.id, attribute) if isinstance(place, ast.Name) else ("", "")


def changes_itself(tree: ast.ClassDef) -> bool:
    """Return whether a method of a class changes its object, once that is made."""
    methods = (each for each in tree.body if isinstance(each, FUNCTIONS))
    changed = (changed_places(each) for each in methods if each.name != "__init__")
    return any(name == "self" for places in changed for name, _ in places)


def bound_names(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, set[str]]]:
    """Yield the names bound outside of functions, each with the classes that its value is of."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            parts = [*ast.walk(node.value)]
            made = {type(each).__name__.lower() for each in parts}
            calls = (each for each in parts if isinstance(each, ast.Call))
            made |= {ast.unparse(each.func).split(".")[-1] for each in calls}
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names = (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
                yield from ((name, set() if "field" in made else made) for name in names)
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def find_in_module(path: str, tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield the names that hold state in a module, or that it changes in another one.

    `own` are the package's classes whose objects change.
    """
    nodes = [*ast.walk(tree)]
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    imported = {
        each.asname or each.name: f"{node.module}.{each.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ipyagent")
        for each in node.names
    }
    known = {*imported.values(), *(f"{module_of(path)}.{each.name}" for each in classes)}
    stateful = STATEFUL | {name.rpartition(".")[2] for name in own & known}
    changed = changed_places(tree)
    in_functions = {
        name for each in nodes if isinstance(each, FUNCTIONS) for name, _ in changed_places(each)
    }
    for node in nodes:
        if isinstance(node, ast.Global):
            yield from (f"{path} {name}" for name in node.names)
    for name, made in bound_names(tree):
        if made & stateful or (name in in_functions and made & CONTAINERS):
            yield f"{path} {name}"
    for owner in classes:
        yield from (f"{path} {owner.name}.{x}" for x, made in bound_names(owner) if made & stateful)
    for name, attribute in changed:
        if attribute and name in ("cls", *(each.name for each in classes)):
            yield f"{path} {name}.{attribute}"
        if attribute and name in imported and not imported[name].split(".")[-1][0].isupper():
            yield f"{imported[name]} {attribute}"


def module_of(path: str) -> str:
    return f"ipyagent.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def find_state(trees: dict[str, ast.Module]) -> set[str]:
    own = {
        f"{module_of(path)}.{each.name}"
        for path, tree in trees.items()
        for each in tree.body
        if isinstance(each, ast.ClassDef) and changes_itself(each)
    }
    return {name for path, tree in trees.items() for name in find_in_module(path, tree, own)}


def test_each_name_that_holds_state_has_a_reason() -> None:
    assert find_state(parse_sources()) == REASONS.keys()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x = 0\ndef f():\n    global x\n    x = 1", "a.py x"),
        ("x = {}\ndef f():\n    x[1] = 2", "a.py x"),
        ("x: list[int] = []\ndef f():\n    x.append(1)", "a.py x"),
        ("x = set()\ndef f():\n    x.add(1)", "a.py x"),
        ("x = threading.Lock()", "a.py x"),
        ("try:\n    (x,) = (threading.Lock(),)\nfinally:\n    pass", "a.py x"),
        ("class C:\n    x = weakref.WeakSet()", "a.py C.x"),
        ("class C:\n    def f(self):\n        self.y = 1\nx = C()", "a.py x"),
        ("class C:\n    x = 0\n    def f(self):\n        C.x = 1", "a.py C.x"),
        ("class C:\n    @classmethod\n    def f(cls):\n        cls.x = 1", "a.py cls.x"),
        ("from ipyagent import b\nb.x = 1", "ipyagent.b x"),
        ("x = {1: 2}\ndef f():\n    return x[1]", None),
        ("x = {}\nfor name in 'abc':\n    x[name] = 1", None),
        ("class C:\n    def __init__(self):\n        self.y = 1\nx = C()", None),
        ("class C:\n    x: list = field(default_factory=list)", None),
    ],
)
def test_state_is_found_in_every_form(code: str, name: str | None) -> None:
    assert find_state({"a.py": ast.parse(code)}) == ({name} if name else set())
