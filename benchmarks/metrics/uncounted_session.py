"""A session that answers as `StreamSession` does, without the counters of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.frames.stream_session import StreamSession

from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2


class UncountedSession(StreamSession):
    """The same steps in the same order, but for the counters."""

    def answer(self, frame: bytes) -> bytes | None:
        request: query_pb2.ClientFrame = self._parse(frame)
        query = request.query
        if self._session is None:
            raise stopping(self._info)
        try:
            if request.WhichOneof("frame") != "query":
                raise InvalidRequestError("only the first frame of a connection may be a hello")
            self._admit(query, len(frame))
        except QueryableStateError as refusal:
            return frame_of(refusal_of(query.id, refusal))
        self._unanswered[query.id] = len(frame)
        self.unanswered_bytes += len(frame)
        answer = self._session.ask(query, frame)
        if answer is not None:
            self.unanswered_bytes -= self._unanswered.pop(query.id, 0)
        elif self._unanswered:
            self._idle.clear()
        return answer
