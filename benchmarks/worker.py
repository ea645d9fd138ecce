"""The beginning of programs with a model in the process that works with one tool.

Such a program defines `ANSWER`, what the model ends a run with, and the tool `look`.
"""

WORKER = """
import json, os
from ipyagent import Agent
from ipyagent.schema import StreamChunk

class Worker:
    model, context_window = "worker", None
    left = number = 0

    async def stream(self, request):
        self.number += 1
        if self.left and request.tools:  # a summary is asked for without
            self.left -= 1
            call = f"call_{self.number}"
            yield StreamChunk(type="tool_call", index=0, id=call, name="look", data="{}")
            yield StreamChunk(type="finish", data="tool_calls")
        else:
            yield StreamChunk(type="content", data=ANSWER)
            yield StreamChunk(type="finish", data="stop")
"""

RESIDENT = """
import gc, os

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
"""
