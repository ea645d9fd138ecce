"""What a prompt must be like, checked before anything is done with it.

Every prompt passes the validators that come with the package, those of installed packages (entry
points of GROUP), those of the setting `chat.validators`, and those of its session, in this order.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ipyagent.config import is_trusted
from ipyagent.errors import AgentError, ConfigError
from ipyagent.schema import MAX_TYPED

Validator = Callable[[str], object]
"""Raises ValueError, saying why, for a prompt that it refuses; what it returns is ignored."""

GROUP = "ipyagent.validators"
"""The entry points by which an installed package adds validators."""

_WAY_OUT = "Mend it or take it away."


def not_empty(prompt: str) -> None:
    """There is something to answer."""
    if not prompt.strip():
        raise ValueError("The prompt is empty: write what the agent should do.")


def not_too_long(prompt: str) -> None:
    """It was typed, not pasted: what is longer belongs where it can be read in parts."""
    typed = len(prompt.strip())
    if typed > MAX_TYPED:
        raise ValueError(
            f"The prompt has {typed:,} characters; at most {MAX_TYPED:,} can be typed. "
            "Put the text into a file or a variable and mention it with @."
        )


VALIDATORS: tuple[Validator, ...] = (not_empty, not_too_long)
"""What every prompt has to pass."""


def validate(prompt: str, validators: Iterable[Validator] = VALIDATORS) -> None:
    """Ask all validators; raise AgentError with the first objection.

    A validator that fails refuses the prompt too: what it was to keep back is not let through.
    """
    for check in validators:
        try:
            answer = check(prompt)
        except AgentError:
            raise
        except ValueError as error:
            refusal = str(error) or f"{_name_of(check)} refused the prompt, and does not say why."
            raise AgentError(refusal) from None
        except Exception as error:
            raise AgentError(_not_sent(_name_of(check), f"failed ({_line(error)})")) from None
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise AgentError(_not_sent(_name_of(check), "is async; make it an ordinary function"))


@cache
def installed_validators() -> tuple[Validator, ...]:
    """Return the validators of installed packages; raise ConfigError for one that is broken."""
    return tuple(
        _load(each.load, f"{each.value} of the package {each.dist.name if each.dist else '?'}")
        for each in entry_points(group=GROUP)
    )


def configured_validators(paths: Iterable[str], folder: Path) -> tuple[Validator, ...]:
    """Return the validators at import paths such as `package.module:function`.

    Raises ConfigError for one that cannot be imported, or that `folder` would bring along although
    the user does not trust its settings.
    """
    return tuple(
        _load(partial(_import, path, folder), f"{path} of chat.validators") for path in paths
    )


def _import(path: str, folder: Path) -> Any:
    module, _, name = path.partition(":")
    package = module.partition(".")[0]
    if package not in sys.modules and _lies_in(package, folder) and not is_trusted(folder):
        raise ConfigError(
            f"it is in {folder}, which you do not trust; `import {package}` yourself first, or "
            "`%agent trust` the folder"
        )
    found: Any = importlib.import_module(module)
    for attribute in name.split("."):
        found = getattr(found, attribute)
    return found


def _lies_in(package: str, folder: Path) -> bool:
    spec = find_spec(package)
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
    return any(Path(each).resolve().is_relative_to(folder.resolve()) for each in places)


def _load(load: Callable[[], Any], name: str) -> Validator:
    try:
        found = load()
    except Exception as error:
        raise ConfigError(_not_sent(name, f"cannot be loaded: {_line(error)}")) from None
    if not callable(found):
        kind = type(found).__name__
        raise ConfigError(_not_sent(name, f"is no function but an object of type {kind}"))
    loaded: Validator = found
    return loaded


def _not_sent(name: str, problem: str) -> str:
    return f"The prompt was not sent, because the validator {name} {problem}. {_WAY_OUT}"


def _name_of(check: object) -> str:
    name = getattr(check, "__qualname__", type(check).__qualname__)
    return f"{getattr(check, '__module__', None) or '?'}:{name}"


def _line(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, AgentError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
