"""Bodies of requests and answers, within the memory and the time that clients may take."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from queryable_state.server.serving.byte_budget import SHARE_BYTES
from queryable_state.server.web.api.route import JsonText, refuse_constant
from queryable_state.server.web.http.error_answers import refused
from queryable_state.wire.errors import InvalidRequestError, Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

    from queryable_state.server.serving.byte_budget import ByteBudget, ClientBudgets

# Parsing holds the interpreter lock: so many bytes take a few milliseconds.
_MOST_BYTES = 1 << 20

_RETRY_MS = 1_000


class BodyRefusedError(Exception):
    """A body that is not read; `answer` says why."""

    def __init__(self, answer: web.Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Bodies:
    """Reads the bodies of requests and sends those of answers.

    They count in the byte budgets of the process; a client that is too slow loses its connection.
    """

    def __init__(self, budgets: ClientBudgets, *, timeout_s: float, request_bytes: int) -> None:
        """`timeout_s`: longest time of one body; `request_bytes`: most bytes of a request."""
        self._budgets = budgets
        self._timeout_s = timeout_s
        self._most_bytes = min(request_bytes, _MOST_BYTES)

    async def read_json(self, request: web.BaseRequest) -> Any:
        """The parsed body; numbers with a fraction or an exponent are `JsonText`, with all digits.

        Raises `InvalidRequestError`, `RetryLaterError`, `BodyRefusedError`.
        """
        if request.content_type != "application/json":
            # It also keeps pages of other sites out: with it a browser asks before it sends.
            raise BodyRefusedError(
                refused(415, "INVALID_REQUEST", "send the body with Content-Type: application/json")
            )
        if (request.content_length or 0) > self._most_bytes:
            raise self._too_long()
        read = bytearray()
        with self._counted(self._budgets.requests) as count:
            try:
                async with asyncio.timeout(self._timeout_s):
                    async for chunk in request.content.iter_any():
                        read += chunk
                        if len(read) > self._most_bytes:
                            raise self._too_long()
                        count(len(chunk))
            except TimeoutError:
                raise BodyRefusedError(
                    refused(
                        408,
                        "DEADLINE_EXCEEDED",
                        f"the body did not arrive within {self._timeout_s:g} s",
                        {"Connection": "close"},
                    )
                ) from None
        if len(read) > SHARE_BYTES:
            await self._budgets.large_requests.next()
        try:
            return json.loads(read, parse_float=JsonText, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise InvalidRequestError(f"the body is not JSON: {problem}") from None

    async def send(self, request: web.BaseRequest, answer: web.Response) -> web.StreamResponse:
        """Sends an answer; raises `ConnectionResetError` if the client does not read it in time.

        Raises `RetryLaterError`, before it sends anything, if there is no room for the answer.
        """
        with self.held_answer(len(answer.body) if isinstance(answer.body, bytes) else 0):
            await answer.prepare(request)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await answer.write_eof()
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError("the client does not read its answer") from None
        return answer

    @contextlib.contextmanager
    def held_answer(self, size_bytes: int) -> Iterator[None]:
        """Counts an answer, or a part of one, until the end of the block.

        Raises `RetryLaterError` if there is no room for it.
        """
        with self._counted(self._budgets.answers) as count:
            if size_bytes > SHARE_BYTES:
                count(size_bytes)
            yield

    def _too_long(self) -> BodyRefusedError:
        return BodyRefusedError(
            refused(
                413,
                "LIMIT_EXCEEDED",
                f"the body is longer than {self._most_bytes:,} bytes: split the request",
                {"Connection": "close"},
            )
        )

    @contextlib.contextmanager
    def _counted(self, budget: ByteBudget) -> Iterator[Any]:
        """Counts bytes until the end of the block; refuses those for which there is no room."""
        held = 0

        def count(size: int) -> None:
            nonlocal held
            if not budget.may_hold(held + size):
                raise RetryLaterError(
                    "the server holds as many bytes for clients as it may",
                    reason=Reason.OVERLOADED,
                    retry_after_ms=_RETRY_MS,
                )
            budget.take(size)
            held += size

        try:
            yield count
        finally:
            budget.give(held)
