"""The built-in profiles: `%%agent -a review`.

A profile of the user's with the same name replaces the built-in one.
"""

from __future__ import annotations

from ipyagent.config.sections import AgentConfig
from ipyagent.config.sources import Layer
from ipyagent.json_types import JsonDict

_READING_TOOLS = (
    "list_files",
    "read_file",
    "inspect_file",
    "search_files",
    "list_variables",
    "inspect_variable",
    "read_notebook",
    "recall_notes",
    "todo_write",
    "ask_user",
)

_PROFILES: dict[str, JsonDict] = {
    "explain": {
        "system_prompt": "Explain what is there, in plain words and from the beginning, with the "
        "names that the code and the data use. Look at them first. Change nothing, run nothing.",
        "allowed_tools": _READING_TOOLS,
    },
    "plan": {
        "system_prompt": "Propose the whole plan first: few steps, each of them complete, in the "
        "order in which they are to run.",
        "plan": True,
    },
    "review": {
        "system_prompt": "Review what is there: read it, then list what is wrong or risky, the "
        "gravest first, each with its file and line or its variable, why it matters, and what you "
        "would do. Say so when you find nothing. Change nothing, run nothing.",
        "allowed_tools": _READING_TOOLS,
    },
    "write": {
        "system_prompt": "Write or change files and cells as the user asks. Read first what you "
        "change, keep its style, make the smallest change that does it, and say at the end what "
        "you changed.",
        "allowed_tools": (*_READING_TOOLS, "write_file", "edit_file", "insert_cell", "edit_cell"),
    },
}

BUILT_IN_PROFILES = Layer("ipyagent's own profiles", {"agents": _PROFILES})
"""The layer below all others."""


def has_profile_tools(agent: str | None, settings: AgentConfig) -> bool:
    """Return whether the allowed tools are those of a built-in profile.

    It names every tool that it may use; the settings still decide which groups are switched on.
    """
    profile = _PROFILES.get(agent or "", {})
    return settings.allowed_tools == profile.get("allowed_tools")
