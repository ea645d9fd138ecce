"""A service's description as it arrives: bytes of a stranger, read within bounds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import strip_escapes, visible
from ipyagent.schema.arguments import well_formed

MAX_BYTES = 20_000_000  # GitHub's has 13 million
MAX_YAML_BYTES = 2_000_000  # it takes twenty times as long to read as JSON
MAX_DEPTH = 100
MAX_NODES = 2_000_000

_CHECK_SECONDS = 2.0
_CHECKED_NODES = 2_000  # of one path; more would take seconds in one go
_MOST_PROBLEMS = 3
_FRAME = ("openapi", "swagger", "info")

Document = JsonDict


def parse(data: bytes) -> Document:
    """The description in a JSON or YAML text; raises ConfigError saying what is wrong with it."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
        document = _json(text) if text.lstrip()[:1] in ("{", "[") else _yaml(text)
        if not isinstance(document, dict) or not isinstance(document.get("paths"), dict):
            raise ConfigError("it is no description by OpenAPI: it has no `paths`")
        _bounded(document)
        _as_json(document)
        version(document)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ConfigError("it is not text in UTF-8") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise unreadable(error) from None
    return document


def unreadable(error: Exception) -> ConfigError:
    """What is told where reading came upon something that nobody thought of."""
    return ConfigError(f"it cannot be read: {told(error, 200)}")


def version(document: Document) -> str:
    """2.0, 3.0 or 3.1; raises ConfigError for any other."""
    said = str(document.get("swagger") or document.get("openapi") or "nothing")
    found = next((each for each in ("2.0", "3.0", "3.1") if said.startswith(each)), None)
    if found is None or (found == "2.0") != ("swagger" in document):
        raise ConfigError(f"its version is {visible(said[:20])}; 2.0, 3.0 and 3.1 are known")
    return found


def problems(document: Document) -> list[str]:
    """The first things that OpenAPI's own schema finds wrong with the operations; quick.

    Only that schema is applied: the validator's other checks would fetch what the document refers
    to, and match its own examples against its own regular expressions.
    """
    from openapi_spec_validator import schemas

    validator = {
        "2.0": schemas.openapi_v2_schema_validator,
        "3.0": schemas.openapi_v30_schema_validator,
        "3.1": schemas.openapi_v31_schema_validator,
    }[version(document)]
    frame: Document = {
        key: document[key] for key in ("openapi", "swagger", "info") if key in document
    }
    found: list[str] = []
    end = time.monotonic() + _CHECK_SECONDS
    for path, item in document["paths"].items():
        if time.monotonic() > end or len(found) >= _MOST_PROBLEMS:
            break
        if sum(1 for _ in islice(_nodes(item), _CHECKED_NODES)) < _CHECKED_NODES:
            errors = validator.iter_errors({**frame, "paths": {path: item}})
            found += [_problem(each) for each in islice(errors, _MOST_PROBLEMS)]
    return list(dict.fromkeys(found))[:_MOST_PROBLEMS]


def _problem(error: Any) -> str:
    where = " ".join(map(str, error.absolute_path))
    return told(f"{where}: {error.message}" if where else error.message, 160)


def told(text: object, most: int) -> str:
    """A stranger's words as one line: nothing in it acts or hides, and it ends somewhere."""
    line = " ".join(visible(strip_escapes(str(text)[: 4 * most])).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise ConfigError(f"it is not JSON ({error})") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _yaml(text: str) -> Any:
    import yaml
    from jsonschema_path.loaders import JsonschemaSafeLoader  # leaves dates as text, like JSON

    if len(text) > MAX_YAML_BYTES:
        raise ConfigError(f"as YAML it is larger than {MAX_YAML_BYTES:,} bytes; use JSON")
    loader: Any = JsonschemaSafeLoader
    try:
        _flat(yaml.parse(text, loader))
        return yaml.load(text, loader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError):
        raise ConfigError("it is neither JSON nor YAML") from None


def _flat(events: Iterator[object]) -> None:
    """See to it that building the values is safe: LibYAML's deep nesting ends the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")


def _bounded(document: Document) -> None:
    """Refuse what is endless or huge once its aliases are followed, and what JSON cannot say."""
    for count, (depth, node) in enumerate(_nodes(document)):
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")
        if count > MAX_NODES:
            raise ConfigError(f"it holds more than {MAX_NODES:,} values")
        if not isinstance(node, dict | list | str | int | float | None):
            raise ConfigError(f"it holds a {type(node).__name__}, which JSON cannot say")


def _as_json(document: Document) -> None:
    """Make all keys text, as in `200:` of YAML, and all text such that it can be kept and sent."""
    done: set[int] = set()  # what has aliases comes up many times
    stack: list[Any] = [document]
    while stack:
        node = stack.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        if isinstance(node, dict):
            items = {_key(key): _value(each) for key, each in node.items()}
            node.clear()
            node.update(items)
        else:
            node[:] = map(_value, node)
        inside = node.values() if isinstance(node, dict) else node
        stack.extend(each for each in inside if isinstance(each, dict | list))


def _key(key: object) -> str:
    if isinstance(key, str):
        return well_formed(key)
    return json.dumps(key) if key is None or isinstance(key, bool) else str(key)


def _value(value: object) -> Any:
    return well_formed(value) if isinstance(value, str) else value


def _nodes(value: object) -> Iterator[tuple[int, Any]]:
    """All values in it, each with its depth."""
    stack: list[tuple[int, Any]] = [(0, value)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        if isinstance(node, dict):
            stack.extend((depth + 1, each) for each in node.values())
        elif isinstance(node, list):
            stack.extend((depth + 1, each) for each in node)
