"""How commands end; else with 0."""

NOT_THERE = 1
"""What was asked for is not there, not all of it, or not intact."""

REFUSED = 2
"""It could not be answered; the caller can put it right, or ask again later."""

INTERRUPTED = 130
"""As shells say it: 128 and SIGINT."""

PIPE_CLOSED = 141
"""As shells say it: 128 and SIGPIPE."""
