"""The documentation site: `make docs` builds it without network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402

import ipyagent  # noqa: E402

project = "ipyagent"
author = "the ipyagent developers"
release = ipyagent.__version__
html_title = f"ipyagent {release}"

extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_copy_source = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Everything that the pages refer to exists, or the build fails.
nitpicky = True
# Types of other packages are documented on their sites, which need a network.
nitpick_ignore_regex = [("py:.*", r".*")]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "description"

# The notebooks run as in `make test`: on the embedded explorer, with nobody to ask.
os.environ |= {
    "IPYAGENT_LLM__MODEL": "offline/explorer",
    "IPYAGENT_AGENT__CONFIRM_MODE": "yolo",
    "IPYAGENT_CHAT__PERSIST": "false",
}
nb_execution_mode = "off"
nb_merge_streams = True

generate.generate(HERE / "_generated")
