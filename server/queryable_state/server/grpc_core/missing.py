"""Check that the installed grpcio has the undocumented parts that `grpc_core` uses."""

from __future__ import annotations

import functools
import importlib

_MEMBERS = {
    "Server": (
        "add_http2_port",
        "cancel_all_calls",
        "destroy",
        "register_completion_queue",
        "request_call",
        "shutdown",
        "start",
    ),
    "CompletionQueue": ("poll", "shutdown"),
    "CompletionType": ("queue_shutdown", "queue_timeout"),
}

# The operations of a call, with their arguments.
_OPERATIONS = {
    "ReceiveCloseOnServerOperation": (0,),
    "ReceiveMessageOperation": (0,),
    "SendInitialMetadataOperation": ((), 0),
    "SendMessageOperation": (b"", 0),
    "SendStatusFromServerOperation": ((), 0, b"", 0),
}


@functools.cache
def missing(module: str = "grpc._cython.cygrpc") -> str:
    """Names what the installed grpcio lacks; empty if nothing."""
    try:
        core = importlib.import_module(module)
        for name, members in _MEMBERS.items():
            for member in members:
                getattr(getattr(core, name), member)
        for name, arguments in _OPERATIONS.items():
            getattr(core, name)(*arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        return str(problem)
    return ""
