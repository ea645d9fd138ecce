"""The keys with which this kernel signs its messages: whoever has one can speak for it."""

from __future__ import annotations

import sys


def signing_keys() -> tuple[str, ...]:
    """Return the keys of the running kernel, a character for each byte; none outside of one."""
    app = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if app is None or not app.initialized():
        return ()
    key = getattr(app.instance().session, "key", b"")
    return (key.decode("latin-1"),) if isinstance(key, bytes) and key else ()


def drop_signing_keys() -> None:
    """Let this process sign nothing any more: it is a copy of the kernel."""
    app = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if app is not None and app.initialized():
        app.instance().session.auth = None
