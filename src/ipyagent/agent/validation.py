"""Checks of a prompt before anything is done with it.

Every prompt passes the validators that come with the package, those of installed packages (entry
points of GROUP), those of the setting `chat.validators`, and those of its session, in this order.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.metadata import EntryPoint, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from ipyagent.config import is_trusted
from ipyagent.errors import AgentError, ConfigError, name_and_text
from ipyagent.schema import MAX_TYPED

Validator = Callable[[str], object]
"""Raises ValueError with the reason for a prompt that it refuses; its result is ignored."""

GROUP = "ipyagent.validators"
"""The entry point group by which an installed package adds validators."""

_ADVICE = "Mend it or take it away."


def check_not_empty(prompt: str) -> None:
    """Refuse an empty prompt."""
    if not prompt.strip():
        raise ValueError("The prompt is empty: write what the agent should do.")


def check_length(prompt: str) -> None:
    """Refuse a prompt too long to be typed: a long text belongs in a file or variable."""
    typed = len(prompt.strip())
    if typed > MAX_TYPED:
        raise ValueError(
            f"The prompt has {typed:,} characters; at most {MAX_TYPED:,} can be typed. "
            "Put the text into a file or a variable and mention it with @."
        )


VALIDATORS: tuple[Validator, ...] = (check_not_empty, check_length)
"""The validators that every prompt passes."""


def validate(prompt: str, validators: Iterable[Validator] = VALIDATORS) -> None:
    """Call all validators; raise AgentError with the first objection.

    A validator that fails refuses the prompt too: the prompt may be one that it should stop.
    """
    for check in validators:
        try:
            answer = check(prompt)
        except AgentError:
            raise
        except ValueError as error:
            refusal = (
                str(error) or f"{_validator_name(check)} refused the prompt, and does not say why."
            )
            raise AgentError(refusal) from None
        except Exception as error:
            raise AgentError(
                _rejection(_validator_name(check), f"failed ({_error_text(error)})")
            ) from None
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise AgentError(
                _rejection(_validator_name(check), "is async; make it an ordinary function")
            )


@cache
def installed_validators() -> tuple[Validator, ...]:
    """Return the validators of installed packages; raise ConfigError for one that is broken."""
    return tuple(
        _load_validator(
            each.load, f"{each.value} of the package {each.dist.name if each.dist else '?'}"
        )
        for each in _entry_points()
    )


def _entry_points() -> Iterator[EntryPoint]:
    """Yield the entry points of GROUP.

    Their files are searched for its name first: to parse those of a few hundred packages, as
    `entry_points` does, takes longer than all else before a script's first request.
    """
    named = {
        each.name: None
        for each in distributions()
        if GROUP in (each.read_text("entry_points.txt") or "")
    }
    for name in named:  # the first of a name on the path counts
        yield from distribution(name).entry_points.select(group=GROUP)


def configured_validators(paths: Iterable[str], folder: Path) -> tuple[Validator, ...]:
    """Return the validators at import paths such as `package.module:function`.

    Raises ConfigError for one that cannot be imported, or that would be imported from `folder`
    although the user does not trust its settings.
    """
    return tuple(
        _load_validator(partial(_import_validator, path, folder), f"{path} of chat.validators")
        for path in paths
    )


def _import_validator(path: str, folder: Path) -> object:
    module, _, name = path.partition(":")
    package = module.partition(".")[0]
    if package not in sys.modules and _is_in_folder(package, folder) and not is_trusted(folder):
        raise ConfigError(
            f"it is in {folder}, which you do not trust; `import {package}` yourself first, or "
            "`%agent trust` the folder"
        )
    target: object = importlib.import_module(module)
    for attribute in name.split("."):
        target = getattr(target, attribute)
    return target


def _is_in_folder(package: str, folder: Path) -> bool:
    spec = find_spec(package)
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
    return any(Path(each).resolve().is_relative_to(folder.resolve()) for each in places)


def _load_validator(load: Callable[[], object], name: str) -> Validator:
    try:
        found = load()
    except Exception as error:
        raise ConfigError(_rejection(name, f"cannot be loaded: {_error_text(error)}")) from None
    if not callable(found):
        kind = type(found).__name__
        raise ConfigError(_rejection(name, f"is no function but an object of type {kind}"))
    loaded: Validator = found
    return loaded


def _rejection(name: str, problem: str) -> str:
    return f"The prompt was not sent, because the validator {name} {problem}. {_ADVICE}"


def _validator_name(check: object) -> str:
    name = getattr(check, "__qualname__", type(check).__qualname__)
    return f"{getattr(check, '__module__', None) or '?'}:{name}"


def _error_text(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, AgentError):
        return text
    return name_and_text(error, text)
