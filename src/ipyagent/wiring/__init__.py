"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from ipyagent.wiring.environment import (
    Environment as Environment,
    Services as Services,
    add_served as add_served,
    client_for as client_for,
    find_problem as find_problem,
    list_served as list_served,
    warm_up as warm_up,
)
from ipyagent.wiring.run_methods import replay_run as replay_run
from ipyagent.wiring.run_request import RunRequest as RunRequest, failed_run as failed_run
from ipyagent.wiring.run_task import (
    RunFactory as RunFactory,
    RunFunction as RunFunction,
    extra_validators as extra_validators,
)
from ipyagent.wiring.runtime import (
    Hold as Hold,
    Runtime as Runtime,
    has_journal as has_journal,
    journal_place as journal_place,
    runtime as runtime,
)
