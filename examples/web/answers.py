"""Answers of a web application from the state of a job: values with their age, errors as statuses.

Shared by `fastapi_app.py` and `aiohttp_app.py`. Both read, with one client for the whole process:

    QUERYABLE_STATE_SERVER   HOST[:PORT] of a proxy, several with commas; default localhost:9069
    STATE                    queryable name, default lastTemperature
    JOB                      name or id of the job; unset: the only job with this state
    MAX_AGE_S                older answers are marked as stale, default 30
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client import (
    ClientUnusableError,
    InvalidRequestError,
    LimitExceededError,
    MultiGet,
    PlacementError,
    QueryableStateClient,
    QueryableStateError,
    QueryTimeoutError,
    RetryLaterError,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from queryable_state.client import KvState, ReadInfo

# A browser should have an answer, also that there is none, within a second.
TIMEOUT_S = 1.0

# The job may start, restart, or move to another machine. The client connects again by itself.
_AFTER_A_WHILE = (
    ClientUnusableError,  # The application is shutting down.
    PlacementError,
    QueryTimeoutError,
    RetryLaterError,
    UnknownJobError,
    UnknownStateError,
)
_RETRY_AFTER_S = 2


@dataclass(frozen=True)
class Settings:
    """What the application reads, and from where."""

    servers: str
    state: str
    job: str | None
    max_age_s: float

    @classmethod
    def from_environment(cls) -> Settings:
        """Reads the environment of the process."""
        return cls(
            servers=os.environ.get("QUERYABLE_STATE_SERVER", "localhost:9069"),
            state=os.environ.get("STATE", "lastTemperature"),
            job=os.environ.get("JOB") or None,
            max_age_s=float(os.environ.get("MAX_AGE_S", "30")),
        )

    def client(self) -> QueryableStateClient:
        """A client; open it once per process, in the lifespan of the application."""
        return QueryableStateClient(addresses=self.servers, timeout_s=TIMEOUT_S)


def age_s(info: ReadInfo) -> float:
    """Seconds since the commit of the batch that an answer was read from."""
    return max(0.0, time.time() - info.commit_time_ms / 1000)


def value_answer(key: str, state: KvState, settings: Settings) -> dict[str, Any]:
    """The value under one key, for JSON."""
    age = age_s(state.info)
    return {
        "key": key,
        "value": state.value(),
        "batch": state.info.version,
        "age_s": round(age, 3),
        "stale": age > settings.max_age_s,
    }


def values_answer(found: MultiGet, settings: Settings) -> dict[str, Any]:
    """The values under many keys: those that could not be read are named, not left out."""
    return {
        "values": [value_answer(key, state, settings) for key, state in found.found()],
        "missing": found.missing,
        "failed": {key: str(error) for key, error in found.failed},
        "complete": found.complete,
    }


def error_answer(error: QueryableStateError) -> tuple[int, dict[str, str], dict[str, str]]:
    """The status, the body and the headers for an error of the client."""
    body = {"error": error.reason_name, "message": str(error)}
    if isinstance(error, UnknownKeyOrNamespaceError):
        return 404, body, {}
    if isinstance(error, LimitExceededError):
        return 413, body, {}
    if isinstance(error, InvalidRequestError):
        return 400, body, {}
    if isinstance(error, _AFTER_A_WHILE):
        wait_s = max(_RETRY_AFTER_S, math.ceil(error.retry_after_ms / 1000))
        return 503, body, {"Retry-After": str(wait_s)}
    return 502, body, {}
