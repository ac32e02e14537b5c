"""An answer with the way to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2


@dataclass(frozen=True)
class Explained:
    """The answer to a query of one key, and what was done for it."""

    answers: list[query_pb2.Answer] = field(repr=False)
    """All parts; a refusal stands in them."""

    explanation: query_pb2.ExplainKvStateResponse
    """Where the key is, and the steps by when they were begun, each with the server that took it.

    Without `response`, `error`, `total_us` and `owner_address`, which the service fills in.
    """
