"""Names of others that the ui room uses, though nobody promises to keep them."""

import inspect

from ipykernel.comm.comm import BaseComm


def test_ipykernel_asks_the_comm_where_its_messages_go() -> None:
    route = getattr(BaseComm, "_reply_subshell_for", None)
    assert route is not None, (
        "BaseComm._reply_subshell_for is gone: a click may wait behind a blocked cell. See how "
        "ipykernel routes comm messages now (`shell_main`), try a click while a tool blocks the "
        "main thread in JupyterLab, and change ui/card.py"
    )
    assert list(inspect.signature(route).parameters) == ["self", "data", "default"]
