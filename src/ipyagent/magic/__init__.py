"""`%%agent` and `%agent`."""

from ipyagent.magic.extension import load as load, unload as unload
