"""Options that all query commands have, also in front of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAGS = ("--json", "--tls")
_WITH_VALUE = ("--server", "--token-file", "--timeout")
_TLS = "--tls-"


def behind_command(words: Sequence[str]) -> list[str]:
    """Moves common options in front of the command behind it, where its parser takes them."""
    at = 0
    while at < len(words):
        name, given, _ = words[at].partition("=")
        if name in _FLAGS:
            at += 1
        elif name in _WITH_VALUE or name.startswith(_TLS):
            at += 1 if given else 2
        else:
            break
    if not 0 < at < len(words):
        return list(words)
    return [words[at], *words[:at], *words[at + 1 :]]
