"""Static reading of code and commands: what a call would touch, as far as reading can tell.

It names things on the approval card and bounds what "Always" covers. It is no sandbox: Python
cannot be judged by reading, so nothing that is read here is called safe or runs unasked for it.
"""

from ipyagent.tools.reach.code import read_code
from ipyagent.tools.reach.found import (
    ENVIRONMENT,
    NETWORK,
    PROCESSES,
    READS,
    UNREADABLE,
    WRITES,
    Reach,
    coverage,
)
from ipyagent.tools.reach.programs import read_program

__all__ = [
    "ENVIRONMENT",
    "NETWORK",
    "PROCESSES",
    "READS",
    "UNREADABLE",
    "WRITES",
    "Reach",
    "coverage",
    "read_code",
    "read_program",
]
