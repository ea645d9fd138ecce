"""Every error that ipyagent raises on purpose.

AgentError
├─ ConfigError                a setting is wrong; the message names the key and the way out
│  └─ AgentNotFoundError      no profile has that name
├─ ModelError                 the model could not be asked, or answered nonsense
│  ├─ ModelUnavailableError   transient: rate limit, overload, broken connection
│  │  └─ RetryExhaustedError  … and it stayed so
│  └─ ModelRefusedError       final: bad key, unknown model
│     ├─ ContextOverflowError the conversation is longer than the model takes in
│     ├─ HistoryRefusedError  a part of it was refused, and is left out if that helps
│     └─ MalformedCallError   the model wrote a call that its service could not read
├─ StepTimeoutError           one step took too long (a TimeoutError too)
├─ JournalError               what happens cannot be recorded
├─ SessionError               a session is not there, has ended, or cannot be read
├─ ApprovalExpiredError       an approval was not given in time, or used before
├─ MCPError                   a tool server failed
│  ├─ MCPConnectionError      it could not be reached
│  └─ MCPToolCallError        it could not carry out a call
├─ ToolNotFoundError          no tool has that name
├─ DuplicateToolError         two different tools claim one name
├─ InvalidArgumentsError      a call's arguments do not fit the tool's schema
├─ PathTraversalError         a path leads out of the workspace
├─ PathValidationError        a path inside the workspace cannot be used
├─ NoFrontendError            the user has to be asked and nobody can be
├─ PageError                  the page with the notebook cannot fulfil a request
├─ BusyError                  this cell or session already runs an agent
├─ InstallationError          a package that ipyagent needs is missing or does not fit
└─ RunFailedError             raised by `--raise` for a run that did not succeed

AgentInterrupted (a KeyboardInterrupt) ends a run that the user stopped, AgentStopped where its card
says so. An error for want of file descriptors gets advice (`describe_error`).
"""

from __future__ import annotations

import bdb
import errno
from collections.abc import Iterator
from typing import Self


class AgentError(Exception):
    """Base of all errors raised on purpose; its text is written for the user.

    `advice` is for the model alone: what to do next.
    """

    advice: str = ""

    def advise(self, advice: str) -> Self:
        """Return the error with advice for the model beside its text."""
        self.advice = advice
        return self

    def _render_traceback_(self) -> list[str]:
        """Return the one line that IPython shows, without a traceback."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(AgentError):
    """A setting is wrong."""


class AgentNotFoundError(ConfigError):
    """No agent profile has that name."""


class ModelError(AgentError):
    """The model could not be asked, or its answer could not be used.

    The first line describes the failure, an optional second one the remedy.
    """

    advised = False
    """True if the text names a remedy already."""


class ModelUnavailableError(ModelError):
    """A transient failure of the model's service.

    `retry_after` is the number of seconds that the service asked us to wait, if it did.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RetryExhaustedError(ModelUnavailableError):
    """A transient failure that stayed: `last` is the error of the last of `attempts`."""

    def __init__(self, attempts: int, last: ModelUnavailableError) -> None:
        times = "once" if attempts == 1 else f"{attempts} times"
        message, newline, advice = str(last).partition("\n")
        message = message if message.endswith((".", "!", "?")) else f"{message}."
        super().__init__(f"{message} It was tried {times}.{newline}{advice}", last.retry_after)
        self.attempts, self.last = attempts, last


class ModelRefusedError(ModelError):
    """A failure that asking again will not cure."""


class ContextOverflowError(ModelRefusedError):
    """The conversation is longer than the model takes in."""


class HistoryRefusedError(ModelRefusedError):
    """A part of the conversation was refused; the client leaves it out, for good if that helps."""


class MalformedCallError(ModelRefusedError):
    """The model wrote a call that its service could not read: the model can write it again."""


class StepTimeoutError(AgentError, TimeoutError):
    """One step took longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"one step took more than {seconds:g} s")
        self.seconds = seconds


class JournalError(AgentError):
    """Events cannot be recorded, so nothing happens."""


class SessionError(AgentError):
    """A session is not there, has ended, or cannot be read."""


class ApprovalExpiredError(AgentError):
    """An approval was not given in time, or was used before."""


class MCPError(AgentError):
    """A tool server failed."""


class MCPConnectionError(MCPError):
    """A tool server could not be reached."""


class MCPToolCallError(MCPError):
    """A tool server could not carry out a call."""


class ToolNotFoundError(AgentError):
    """No tool has that name."""


class DuplicateToolError(AgentError):
    """Two different tools claim one name."""


class InvalidArgumentsError(AgentError):
    """A call's arguments do not fit the tool's schema."""


class PathTraversalError(AgentError):
    """A path leads out of the workspace."""


class PathValidationError(AgentError):
    """A path inside the workspace cannot be used: missing, a folder, not text, too large."""


class NoFrontendError(AgentError):
    """The user has to be asked, and nobody can be."""


class PageError(AgentError):
    """The page that shows the notebook cannot fulfil a request, or does not answer."""


class BusyError(AgentError):
    """This kernel already runs an agent."""


class InstallationError(AgentError):
    """A package that ipyagent needs is missing, or its version does not fit."""


class RunFailedError(AgentError):
    """A run did not succeed and the caller asked for an exception."""


class AgentInterrupted(KeyboardInterrupt):
    """The user stopped the run. IPython shows it in one line, and Run All stops here."""

    def _render_traceback_(self) -> list[str]:
        return [f"ipyagent: {self}"]


class AgentStopped(AgentInterrupted, bdb.BdbQuit):
    """The same, where the run's card says it: IPython shows nothing of a BdbQuit."""


_FULL = (errno.EMFILE, errno.ENFILE)
_ADVICE = (
    "This process has as many files and connections open as it may{}. Close some, or raise the "
    "limit (`ulimit -n` before the kernel starts), and run this again."
)


def lacks_descriptors(error: BaseException) -> bool:
    """Return whether an error, or one that led to it, says that no more files can be opened."""
    return any(getattr(each, "errno", None) in _FULL for each in _chain(error))


def describe_error(error: BaseException) -> str:
    """Return an error's text, with advice if too many files are open."""
    text = str(error)
    return f"{text.rstrip('.')}. {descriptor_advice()}" if lacks_descriptors(error) else text


def name_and_text(error: BaseException, text: str | None = None) -> str:
    """Return the name of an error's class, and its text (or the given one), if any."""
    text = str(error) if text is None else text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def descriptor_advice() -> str:
    """Return advice for too many open files."""
    try:
        import resource  # not on Windows

        limit = f" ({resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
    except (ImportError, OSError):  # without a descriptor nothing more can be imported
        limit = ""
    return _ADVICE.format(limit)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
