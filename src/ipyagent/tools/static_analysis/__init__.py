"""Static analysis of code and commands: the effects of a call, as far as they can be read.

It names effects on the approval card and limits what "Always" covers. It is no sandbox: Python
cannot be judged by reading, so nothing is called safe or runs without asking because of it.
"""

from ipyagent.tools.static_analysis.code import analyze_code as analyze_code
from ipyagent.tools.static_analysis.effects import (
    ENVIRONMENT as ENVIRONMENT,
    NETWORK as NETWORK,
    PROCESSES as PROCESSES,
    READS as READS,
    UNKNOWN_EFFECTS as UNKNOWN_EFFECTS,
    WRITES as WRITES,
    Effects as Effects,
    analyze_command as analyze_command,
    describe_coverage as describe_coverage,
)
