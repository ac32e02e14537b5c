"""Access control of one process: callers, their rights, and the files both come from."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.security.access.access_file import read_access_file
from queryable_state.server.security.access.caller import Caller, StateRights
from queryable_state.server.security.access.grants import ANONYMOUS, Kind, StateName
from queryable_state.server.security.access.jwt_keys import JwtKeys
from queryable_state.server.security.access.jwt_verifier import (
    JwtRefusedError,
    JwtVerifier,
    UnknownKeyError,
)
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.server.security.admission.admission import Admission
from queryable_state.server.security.admission.recent_refusals import RecentRefusals
from queryable_state.server.security.open_sessions import OpenSessions
from queryable_state.wire.errors import (
    AuthenticationError,
    PermissionDeniedError,
    RetryLaterError,
    shown,
)
from queryable_state.wire.security.file_stamp import FileStamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.security.access.access_settings import AccessSettings
    from queryable_state.v1 import registration_pb2


_denied = RateLimitedLog(logging.getLogger(__name__))


_VERBS = {Kind.READ: "read", Kind.SCAN: "scan", Kind.LIST: "see", Kind.ADMIN: "administer"}


class Denials:
    """Denied calls of one process: counted by cause, and logged at a bounded rate."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Denied calls by cause."""

    def unauthenticated(self, cause: str, what: str) -> AuthenticationError:
        """Counts and logs a call without a valid token; returns the error for the caller."""
        self._count(cause, "refusing a call: %s", what)
        return AuthenticationError(what)

    def denied(self, caller: str, kind: Kind, job: str, state: str) -> PermissionDeniedError:
        """Counts and logs an operation without a grant; returns the error for the caller.

        The error is the same whether or not such a state exists: `job` and `state` are what the
        caller wrote.
        """
        where = (f"state {shown(state)!r}" if state else "states") + (
            f" of job {shown(job)!r}" if job else ""
        )
        return self._denied(caller, kind, where)

    def of_rights(self, caller: Caller, kind: Kind, rights: StateRights) -> PermissionDeniedError:
        """The denial by rights; names the state only if the caller may see it."""
        if not rights.kinds:
            return self.unnamed(caller.name)
        return self.denied(caller.name, kind, rights.name.job_name, rights.name.state)

    def unnamed(self, caller: str) -> PermissionDeniedError:
        """The denial for a state that the caller named by id; does not disclose its name."""
        return self._denied(caller, Kind.LIST, "the state with this id")

    def _denied(self, caller: str, kind: Kind, where: str) -> PermissionDeniedError:
        error = PermissionDeniedError(
            f"caller {shown(caller)!r} may not {_VERBS[kind]} {where}, or there is none: "
            f"{_ask(kind)}"
        )
        self._count(f"no grant to {_VERBS[kind]}", "denying a call: %s", error.message)
        return error

    def _count(self, cause: str, text: str, message: str) -> None:
        self.counts[cause] += 1
        _denied.write(logging.WARNING, cause, text, message)


def _ask(kind: Kind) -> str:
    # Any grant includes seeing a state.
    name = "read" if kind is Kind.LIST else _VERBS[kind]
    return (
        f'ask for a grant with kinds = ["{name}"] in the access file of the servers '
        "(spark.queryable_state.access_file)"
    )


_log = logging.getLogger(__name__)

_POLL_S = 0.5
# A file may become readable without a change of its own, as by the rights of its folder.
_RETRY_S = 5.0
_MOST_CALLERS = 4096
# A job may get another name when it is started again.
_RIGHTS_S = 30.0

_HOW = (
    'pass token="..." to the client, --token-file or QUERYABLE_STATE_TOKEN to the command, '
    "-H 'authorization: Bearer ...' to grpcurl"
)


class AccessControl:
    """Authenticates callers and knows their rights. For the event loop, except `cached`.

    Reads the access file when it is created, and raises `InvalidRequestError` if that or the keys
    of JWTs cannot be used. `run` then follows changes of both; a file that is not usable leaves
    the rules as they are, and is read again every few seconds.
    """

    def __init__(
        self,
        settings: AccessSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = settings.access_file
        self._clock = clock
        self._stamps = self._seen = self._stamps_now(settings.jwt_keys)
        self._problem = ""
        self._retry_at_s = 0.0
        self._rules = read_access_file(self._file)
        self.generation = 1
        """Version of the rules; callers authenticated with an older one authenticate again."""
        self.denials = Denials()
        self.refusals = RecentRefusals()
        """Refusals by limits, of these rules and earlier ones."""
        self.admission = Admission(self._rules.limits, refusals=self.refusals)
        self.sessions = OpenSessions()
        self._callers: dict[bytes, Caller] = {}
        self._jwt: JwtVerifier | None = None
        if settings.jwt_keys:
            keys = JwtKeys(settings.jwt_keys, on_change=self._forget_callers)
            self._jwt = JwtVerifier(
                keys, issuer=settings.jwt_issuer, audience=settings.jwt_audience, clock=clock
            )
            if not keys.is_url:
                keys.load()

    def cached(self, authorization: str) -> Caller | None:
        """The caller of a header that was authenticated before; None: authenticate. Thread-safe."""
        caller = self._callers.get(_key(authorization))
        return caller if caller is not None and self.is_valid(caller) else None

    def is_valid(self, caller: Caller) -> bool:
        """False if the caller's token is expired, or the rules have changed."""
        return caller.is_internal or (
            caller.generation == self.generation and self._clock() < caller.expires_s
        )

    def authenticate_now(self, authorization: str) -> Caller:
        """The caller of a header, without waiting.

        Raises `AuthenticationError`; `RetryLaterError` if the keys of its issuer are fetched now.
        """
        try:
            return self._authenticated(authorization)
        except UnknownKeyError as refusal:
            keys = self._keys_to_refresh(refusal)
            _refresh_later(keys)
            raise RetryLaterError(
                "the keys of the token's issuer are fetched now", retry_after_ms=200
            ) from None

    async def authenticate(self, authorization: str) -> Caller:
        """As `authenticate_now`, but waits for the keys of its issuer."""
        try:
            return self._authenticated(authorization)
        except UnknownKeyError as refusal:
            keys = self._keys_to_refresh(refusal)
        await keys.refresh()
        try:
            return self._authenticated(authorization)
        except UnknownKeyError as refusal:
            raise self.denials.unauthenticated(refusal.cause, str(refusal)) from None

    def rights(
        self, caller: Caller, registration: registration_pb2.StateRegistration
    ) -> StateRights:
        """The caller's rights on a state; cached with the caller until they may have changed."""
        now_s = self._clock()
        known = caller.rights.get(registration.state_id)
        if known is not None and now_s < known.until_s:
            return known
        name = StateName(
            registration.job_id.hex(), registration.job_name, registration.queryable_name
        )
        kinds = caller.grants.kinds(name)
        rights = caller.rights[registration.state_id] = StateRights(
            name,
            kinds,
            may_read=Kind.READ in kinds,
            quota=None if caller.is_internal else self.admission.quota(caller.name, name),
            until_s=min(caller.expires_s, now_s + _RIGHTS_S),
        )
        return rights

    def rights_now(self, caller: Caller, state_id: int) -> StateRights | None:
        """Rights that were looked up lately; None: look them up."""
        rights = caller.rights.get(state_id)
        return rights if rights is not None and self._clock() < rights.until_s else None

    async def run(self) -> None:
        """Follows changes of the files and fetches keys until cancelled."""
        keys = None if self._jwt is None else self._jwt.keys
        if keys is not None and keys.is_url:
            _refresh_later(keys)
        try:
            while True:
                await asyncio.sleep(_POLL_S)
                try:
                    await self._follow(keys)
                except Exception as problem:  # noqa: BLE001 - withdrawn tokens have to be noticed
                    self._failed(problem)
        finally:
            if keys is not None:
                await keys.aclose()

    async def _follow(self, keys: JwtKeys | None) -> None:
        if keys is not None and keys.is_old and keys.may_refresh():
            _refresh_later(keys)
        location = "" if keys is None else keys.location
        seen, self._seen = self._seen, await asyncio.to_thread(self._stamps_now, location)
        # Not while the file is being written: it has to be the same twice.
        if self._seen != self._stamps and self._seen == seen:
            self._stamps = seen
            self._problem = ""
            await self._reload()
        elif self._problem and time.monotonic() >= self._retry_at_s:
            await self._reload()

    async def _reload(self) -> None:
        rules = await asyncio.to_thread(read_access_file, self._file)
        if self._jwt is not None and not self._jwt.keys.is_url:
            await asyncio.to_thread(self._jwt.keys.load)
        self._problem = ""
        self._rules = rules
        self.admission = Admission(rules.limits, refusals=self.refusals)
        self._forget_callers()
        _log.info(
            "access control has new rules from %s: %d tokens, %d grants, %d limits",
            self._file,
            len(rules.tokens),
            len(rules.grants),
            len(rules.limits),
        )

    def _failed(self, problem: Exception) -> None:
        """Logs each cause once after a change; the next try is due after a while."""
        text = str(problem) or repr(problem)
        if text != self._problem:
            _log.error("access control keeps its rules, because the new ones fail: %s", text)
        self._problem = text
        self._retry_at_s = time.monotonic() + _RETRY_S

    def _forget_callers(self) -> None:
        self._callers.clear()
        self.generation += 1

    def _authenticated(self, authorization: str) -> Caller:
        known = self.cached(authorization)
        if known is not None:
            return known
        if not authorization:
            if self._rules.anonymous:
                return self._keep("", self._caller(ANONYMOUS))
            raise self.denials.unauthenticated("no token", f"the call has no token: {_HOW}")
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() != "bearer" or not credentials:
            raise self.denials.unauthenticated(
                "no token", f"the authorization of the call is not `Bearer <token>`: {_HOW}"
            )
        return self._keep(authorization, self._bearer(credentials.strip()))

    def _bearer(self, token: str) -> Caller:
        name = self._rules.tokens.get(digest_of(token))
        if name is not None:
            return self._caller(name)
        if self._jwt is None or token.count(".") != 2:
            raise self.denials.unauthenticated(
                "unknown token",
                "the token is not known to the server: it may have been withdrawn, or be of "
                "another cluster; `queryable-state token NAME` makes one and its line for the "
                "access file",
            )
        try:
            claims = self._jwt.verify(token, self._rules.jwt)
        except UnknownKeyError:
            raise
        except JwtRefusedError as refusal:
            raise self.denials.unauthenticated(refusal.cause, str(refusal)) from None
        if claims.subject == ANONYMOUS or claims.subject in self._rules.tokens.values():
            # Otherwise the issuer could hand out the grants of a static token.
            raise self.denials.unauthenticated(
                "subject of a JWT",
                f"the subject of the JWT, {claims.subject!r}, is the name of a static token: name "
                "the token otherwise",
            )
        return self._caller(claims.subject, claims.roles, claims.expires_s)

    def _caller(
        self, name: str, roles: frozenset[str] = frozenset(), expires_s: float | None = None
    ) -> Caller:
        grants = self._rules.grants_of(name, roles)
        if expires_s is None:
            return Caller(name, grants, generation=self.generation)
        return Caller(name, grants, expires_s, self.generation)

    def _keep(self, authorization: str, caller: Caller) -> Caller:
        if len(self._callers) >= _MOST_CALLERS:
            self._callers.clear()
        self._callers[_key(authorization)] = caller
        return caller

    def _keys_to_refresh(self, refusal: UnknownKeyError) -> JwtKeys:
        """The keys of the issuer; raises the refusal if they may not be fetched again yet."""
        assert self._jwt is not None
        if not self._jwt.keys.may_refresh():
            raise self.denials.unauthenticated(refusal.cause, str(refusal)) from None
        return self._jwt.keys

    def _stamps_now(self, keys: str) -> tuple[FileStamp | None, ...]:
        return tuple(
            FileStamp.of(path) for path in (self._file, keys) if path and "://" not in path
        )


def _refresh_later(keys: JwtKeys) -> None:
    task = asyncio.ensure_future(keys.refresh())
    task.add_done_callback(_ignore_failure)


def _key(authorization: str) -> bytes:
    # Not the text itself: a JWT may have kilobytes, and no token should stay in memory.
    return hashlib.sha256(authorization.encode()).digest()


def _ignore_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        # `JwtKeys` has logged it.
        task.exception()
