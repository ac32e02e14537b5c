"""Exit codes of commands, other than 0."""

NOT_THERE = 1
"""The requested state does not exist, or only partly."""

REFUSED = 2
"""The command failed; the caller can fix the request or retry later."""

CONFIGURATION = 78
"""EX_CONFIG of sysexits.h: options or settings of a server's process are wrong, so that its next
start would fail too. Supervisors must not restart it."""

INTERRUPTED = 130
"""128 + SIGINT, as in shells."""

PIPE_CLOSED = 141
"""128 + SIGPIPE, as in shells."""
