"""`%%agent` and `%agent`."""

from ipyagent.magic.extension import load as load
from ipyagent.magic.extension import unload as unload
