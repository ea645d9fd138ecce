"""The profiles that come with the package, beside those of the settings: `%%agent -a review`.

A profile of the user's own with the same name takes the place of one of these.
"""

from __future__ import annotations

from ipyagent.config.sections import AgentConfig
from ipyagent.config.sources import Layer
from ipyagent.json_types import JsonDict

_LOOKING = (
    "list_files",
    "read_file",
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
        "allowed_tools": _LOOKING,
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
        "allowed_tools": _LOOKING,
    },
    "write": {
        "system_prompt": "Write or change files and cells as the user asks. Read first what you "
        "change, keep its style, make the smallest change that does it, and say at the end what "
        "you changed.",
        "allowed_tools": (*_LOOKING, "write_file", "edit_file", "insert_cell", "edit_cell"),
    },
}

BUILT_IN = Layer("ipyagent's own profiles", {"agents": _PROFILES})
"""The layer below all others."""


def is_lenient(agent: str | None, settings: AgentConfig) -> bool:
    """Return whether the allowed tools are those of a built-in profile.

    It names all that it may use; which of these groups are switched on is the settings' matter.
    """
    profile = _PROFILES.get(agent or "", {})
    return settings.allowed_tools == profile.get("allowed_tools")
