"""A connection that answers as `FrameConnection` does, without the counters of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.frames.frame_connection import FrameConnection
from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2


class UncountedConnection(FrameConnection):
    """The same steps in the same order, but for the counters."""

    def answer(self, frame: bytes) -> bytes | None:
        request: query_pb2.ClientFrame = self._parse(frame)
        query, session = request.query, self._session
        if session is None:
            raise stopping(self._info)
        query_id, size, unanswered = query.id, len(frame), self._unanswered
        keys = query.keys
        try:
            if not request.HasField("query"):
                raise InvalidRequestError("only the first frame of a connection may be a hello")
            if unanswered or self._is_draining:
                self._check_unanswered(query_id)
            self._admit(query, keys, size)
        except QueryableStateError as refusal:
            return frame_of(refusal_of(query_id, refusal))
        unanswered[query_id] = size
        self._unanswered_bytes += size
        answer = session.ask(query, frame)
        if answer is None:
            if unanswered:
                self._idle.clear()
            return None
        del unanswered[query_id]
        self._unanswered_bytes -= size
        return answer
