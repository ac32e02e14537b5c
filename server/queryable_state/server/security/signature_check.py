"""Check of the signatures of internal calls."""

from __future__ import annotations

import hmac
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import AuthenticationError, RetryLaterError, shown
from queryable_state.wire.packaging.protocol_versions import (
    INTERNAL,
    VersionRange,
    version_mismatch,
)
from queryable_state.wire.security.authorization import Signed, parse_authorization
from queryable_state.wire.security.signed_calls import signature, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable


WINDOW = 4096
"""Calls of one session that may overtake each other."""

_MOST_SESSIONS = 100_000


@dataclass(slots=True)
class _Session:
    newest: int
    """Highest number received."""
    seen: int
    """Bit i: number `newest - i` was received."""
    last_ms: int
    """Latest time of a call."""


class ReplayWindows:
    """The received numbers of each session.

    Its size depends on the number of callers, not of calls: for each session it holds the highest
    number and one bit for each of the `WINDOW` numbers before it. `forget` drops sessions whose
    every call is too old to be accepted. Not thread-safe.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_full(self) -> bool:
        """True if there is no room for another session."""
        return len(self._sessions) >= _MOST_SESSIONS

    def is_new(self, session: str, number: int, time_ms: int) -> bool:
        """Records a call; False if it was recorded before, or is too far behind to know."""
        known = self._sessions.get(session)
        if known is None:
            self._sessions[session] = _Session(number, 1, time_ms)
            return True
        ahead = number - known.newest
        if ahead > 0:
            known.seen = 1 if ahead >= WINDOW else (known.seen << ahead | 1) & _MASK
            known.newest = number
        elif -ahead >= WINDOW or known.seen >> -ahead & 1:
            return False
        else:
            known.seen |= 1 << -ahead
        known.last_ms = max(known.last_ms, time_ms)
        return True

    def forget(self, before_ms: int) -> None:
        """Drops sessions without a call at or after this time."""
        self._sessions = {
            session: known
            for session, known in self._sessions.items()
            if known.last_ms >= before_ms
        }


_MASK = (1 << WINDOW) - 1


TOLERANCE_MS = 5 * 60_000
"""Greatest difference of the clocks of caller and server."""

_FORGET_EVERY_MS = 60_000


class SignatureCheck:
    """Accepts each signed call once. Thread-safe.

    A signature is good for one method of one server, within `TOLERANCE_MS`. One from before the
    start of the server is refused, because an earlier server at its address may have received
    it. A refusal because of the time carries the server's clock, so that an honest caller
    corrects itself.
    """

    def __init__(
        self, secret: str, audience: str = "", *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        self._secret = secret.encode()
        self.audience = audience
        """The name of this server in the calls; set it before the first call."""
        self._clock_ms = clock_ms
        self._started_ms = self._forgotten_ms = clock_ms()
        self._lock = threading.Lock()
        self._windows = ReplayWindows()

    def check(self, header: str | bytes, method: str) -> Signed:
        """The signature in the `authorization` of a call of a method (`/package.Service/Method`).

        Raises `AuthenticationError` unless it is valid and new, `InvalidRequestError`
        (PROTOCOL_MISMATCH) if the caller speaks no version of the internal protocol in common.
        """
        found = parse_authorization(header)
        if not isinstance(found, Signed):
            raise AuthenticationError(
                f"{shown(method)} needs the job's secret: it is for processes of the application, "
                "which sign their calls with the secret of the job's driver"
            )
        return self.verify(found, method)

    def verify(self, call: Signed, method: str) -> Signed:
        """The same for an `authorization` that is parsed already."""
        if not hmac.compare_digest(call.mac, signature(self._secret, call, method, self.audience)):
            raise AuthenticationError(
                f"{shown(method)} needs the job's secret, and the call is signed with another one, "
                "or for another server or method: use the secret of the job's driver, which offers "
                "it in the coordinator's secret_file, and the advertised address of the server; "
                "servers that share a checkpoint (--servers) all need the same --secret-file"
            )
        spoken = VersionRange(call.min_version, call.max_version)
        if not INTERNAL.common(spoken):
            raise version_mismatch(
                "internal protocol", "this server", INTERNAL, "the caller", spoken
            )
        now_ms = self._clock_ms()
        if (
            not max(now_ms - TOLERANCE_MS, self._started_ms)
            <= call.time_ms
            <= now_ms + TOLERANCE_MS
        ):
            raise AuthenticationError(
                f"{shown(method)}: the signature is {(now_ms - call.time_ms) / 1000:+.0f} s old by "
                "the server's clock, or from before the start of the server: sign the call again, "
                "and synchronize the clocks of the machines",
                server_time_ms=now_ms,
            )
        with self._lock:
            if now_ms - self._forgotten_ms > _FORGET_EVERY_MS or self._windows.is_full:
                self._windows.forget(now_ms - TOLERANCE_MS)
                self._forgotten_ms = now_ms
            if self._windows.is_full:
                raise RetryLaterError("too many callers have signed calls", retry_after_ms=1000)
            is_new = self._windows.is_new(call.session, call.number, call.time_ms)
        if not is_new:
            raise AuthenticationError(
                f"{shown(method)}: the server has received this signature already: a signature is "
                "for one call, sign each call",
                server_time_ms=now_ms,
            )
        return call
