"""Static analysis of code and commands: the effects of a call, as far as they can be read.

It names effects on the approval card and limits what "Always" covers. It is no sandbox: Python
cannot be judged by reading, so nothing is called safe or runs without asking because of it.
"""

from ipyagent.tools.static_analysis.code import analyze_code
from ipyagent.tools.static_analysis.effects import (
    ENVIRONMENT,
    NETWORK,
    PROCESSES,
    READS,
    UNKNOWN_EFFECTS,
    WRITES,
    Effects,
    analyze_command,
    describe_coverage,
)

__all__ = [
    "ENVIRONMENT",
    "NETWORK",
    "PROCESSES",
    "READS",
    "UNKNOWN_EFFECTS",
    "WRITES",
    "Effects",
    "analyze_code",
    "analyze_command",
    "describe_coverage",
]
