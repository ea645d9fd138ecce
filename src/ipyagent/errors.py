"""Every error that ipyagent raises on purpose.

AgentError
├─ ConfigError                a setting is wrong; the message names the key and the way out
├─ ModelError                 the model could not be asked, or answered nonsense
│  ├─ ModelUnavailableError   transient: rate limit, overload, broken connection
│  └─ ModelRefusedError       final: bad key, unknown model, request too long
├─ ToolNotFoundError          no tool has that name
├─ DuplicateToolError         two different tools claim one name
├─ InvalidArgumentsError      a call's arguments do not fit the tool's schema
├─ PathTraversalError         a path leads out of the workspace
├─ PathValidationError        a path inside the workspace cannot be used
├─ NoFrontendError            a person has to be asked and nobody can be
├─ BusyError                  this kernel already runs an agent
└─ RunFailedError             raised by `--raise` for a run that did not succeed

AgentInterrupted (a KeyboardInterrupt) ends a run that the person stopped.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of all errors raised on purpose; its text is written for the person at the notebook."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: one line, no traceback."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(AgentError):
    """A setting is wrong."""


class ModelError(AgentError):
    """The model could not be asked, or its answer could not be used."""


class ModelUnavailableError(ModelError):
    """A transient failure of the model's service.

    `retry_after` is the number of seconds that the service asked us to wait, if it did.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefusedError(ModelError):
    """A failure that asking again will not cure."""


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
    """A person has to be asked, and nobody can be."""


class BusyError(AgentError):
    """This kernel already runs an agent."""


class RunFailedError(AgentError):
    """A run did not succeed and the caller asked for an exception."""


class AgentInterrupted(KeyboardInterrupt):
    """The person stopped the run. IPython shows it in one line, and Run All stops here."""

    def _render_traceback_(self) -> list[str]:
        return [f"ipyagent: {self}"]
