"""What a hostile peer does to our ports, in a process of its own. Loopback addresses only.

    python -m tests.hostile.attacks TARGETS

TARGETS is JSON: HOST:PORT of `public` and `internal` gRPC ports and of `frames`, and the job and
states that are asked for. For each line `NAME SECONDS` on its standard input it forks a process for
that attack, and prints the statuses and refusals that it was answered, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from tests.hostile.attack import Attack
from tests.hostile.connection_attacks import (
    partial_calls,
    partial_frames,
    slow_connections,
    unread_answers,
)
from tests.hostile.request_attacks import (
    flood,
    large_answers_in_json,
    long_json_key,
    many_keys_json,
    many_runs,
    unknown_names,
    unparsable,
    without_secret,
)
from tests.hostile.token_attacks import forged_tokens, fuzzed, large_requests_without_token

if TYPE_CHECKING:
    from collections.abc import Callable


def nothing(attack: Attack) -> None:
    """No attack: what its process and the machine cost."""
    while attack.goes_on():
        time.sleep(0.05)


ATTACKS: dict[str, Callable[[Attack], None]] = {
    each.__name__: each
    for each in (
        many_keys_json,
        many_runs,
        long_json_key,
        large_answers_in_json,
        partial_frames,
        partial_calls,
        without_secret,
        unread_answers,
        unparsable,
        slow_connections,
        unknown_names,
        flood,
        forged_tokens,
        large_requests_without_token,
        fuzzed,
    )
}
CONTROL = nothing.__name__


def main() -> None:
    """Runs attacks until standard input ends."""
    targets = json.loads(sys.argv[1])
    for line in sys.stdin:
        name, seconds = line.split()
        # The imports are paid once; the end of the process closes what the attack left open.
        pid = os.fork()
        if pid == 0:
            attack = Attack(seconds=float(seconds), **targets)
            ATTACKS.get(name, nothing)(attack)
            sys.stdout.write(json.dumps(attack.answers) + "\n")
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"the attack {name} has failed")


if __name__ == "__main__":
    main()
