"""Error classes of the library: one class for each next step of the caller.

An error crosses the wire as `queryable_state.v1.Error` and is raised as the same class
on the other side. The class, and in detail `reason`, tells the caller what to do next
(see `next_step`); the text is for people and never parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from queryable_state.v1 import errors_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Reason = errors_pb2.Reason
_SHOWN = 80
# Fields of the message that are attributes of the same name.
_DETAILS = tuple(set(errors_pb2.Error.DESCRIPTOR.fields_by_name) - {"message"})


def shown(text: str) -> str:
    """Shortens a client's text for an error message."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class QueryableStateError(Exception):
    """Base of every error of this library.

    `reason` is the cause. After `retry_after_ms` the same call may succeed (0: waiting does
    not help). `candidates` are the names that exist.
    """

    default_reason: ClassVar[errors_pb2.Reason.ValueType] = Reason.INTERNAL

    message: str
    reason: errors_pb2.Reason.ValueType
    retry_after_ms: int = 0
    candidates: tuple[str, ...] = ()
    complete_since_batch: int = 0
    placement_version: int = 0
    server_time_ms: int = 0

    def __init__(
        self,
        message: str,
        *,
        reason: errors_pb2.Reason.ValueType | None = None,
        retry_after_ms: int = 0,
        candidates: Sequence[str] = (),
        complete_since_batch: int = 0,
        placement_version: int = 0,
        server_time_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = self.default_reason if reason is None else reason
        self.retry_after_ms = retry_after_ms
        self.candidates = tuple(candidates)
        self.complete_since_batch = complete_since_batch
        self.placement_version = placement_version
        self.server_time_ms = server_time_ms

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.to_proto().SerializeToString()))

    @property
    def reason_name(self) -> str:
        """Name of the reason, as in the proto."""
        return Reason.Name(self.reason)

    def copy(self, message: str | None = None) -> Self:
        """An equal error, with another text if one is given, and without a traceback."""
        return type(self)(self.message if message is None else message, **self._details())

    def after(self, attempts: int) -> Self:
        """The error of the last of several attempts, whose text names how many there were."""
        return self if attempts < 2 else self.copy(f"{self.message} (after {attempts} attempts)")

    def to_proto(self) -> errors_pb2.Error:
        """The error as a message."""
        return errors_pb2.Error(message=self.message, **self._details())

    def _details(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _DETAILS}

    @staticmethod
    def from_proto(error: errors_pb2.Error) -> QueryableStateError:
        """The error of a message, with the class of its reason."""
        reason = error.reason if error.reason in Reason.values() else Reason.INTERNAL
        return _CLASSES.get(reason, InternalError)(
            error.message,
            reason=reason,
            retry_after_ms=error.retry_after_ms,
            candidates=error.candidates,
            complete_since_batch=error.complete_since_batch,
            placement_version=error.placement_version,
            server_time_ms=error.server_time_ms,
        )


class InvalidRequestError(QueryableStateError, ValueError):
    """Fix the request: it can never succeed as it is."""

    default_reason = Reason.INVALID_REQUEST


class KeyTypeError(InvalidRequestError):
    """Fix the key: its type is not the registered one."""

    default_reason = Reason.KEY_TYPE_MISMATCH


class DescriptorMismatchError(InvalidRequestError):
    """Fix the descriptor: it disagrees with the registration."""

    default_reason = Reason.DESCRIPTOR_MISMATCH


class LimitExceededError(InvalidRequestError):
    """Send less: a key, a value or a batch is over a limit."""

    default_reason = Reason.LIMIT_EXCEEDED


class UnknownJobError(QueryableStateError):
    """Fix the job's id or name; `candidates` has the known ones."""

    default_reason = Reason.UNKNOWN_JOB


class UnknownStateError(QueryableStateError):
    """Fix the queryable name, or wait for the first batch; `candidates` has the known ones."""

    default_reason = Reason.UNKNOWN_STATE


class AmbiguousJobError(QueryableStateError):
    """Name the job: `candidates` all have a state of this name."""

    default_reason = Reason.AMBIGUOUS_JOB


class UnknownKeyOrNamespaceError(QueryableStateError, KeyError):
    """Nothing is stored under this key and namespace."""

    default_reason = reason = Reason.UNKNOWN_KEY

    @classmethod
    def worded_later(cls, wording: Callable[[], str]) -> Self:
        """An error whose text is built when read: a caller reads few of thousands of misses."""
        error = cls.__new__(cls)
        error._wording = wording
        return error

    _wording: Callable[[], str]

    def __getattr__(self, name: str) -> str:
        # Called for missing attributes only: the text at its first read.
        if name != "message":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.message = self._wording()
        self.args = (self.message,)
        return self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"


class PlacementError(QueryableStateError):
    """Refresh the placement and ask the new owner, after `retry_after_ms`."""

    default_reason = Reason.NOT_OWNER


class RetryLaterError(QueryableStateError):
    """Ask the same again after `retry_after_ms`."""

    default_reason = Reason.UNAVAILABLE


class QueryTimeoutError(QueryableStateError, TimeoutError):
    """Ask again with more time, or find out what was slow."""

    default_reason = Reason.DEADLINE_EXCEEDED


class VersionGoneError(QueryableStateError):
    """Start over at a newer version: no server has the requested one any more."""

    default_reason = Reason.VERSION_GONE


class StateLostError(QueryableStateError):
    """State before `complete_since_batch` is gone: ask an operator, or allow incomplete answers."""

    default_reason = Reason.STATE_LOST


class AuthenticationError(QueryableStateError):
    """Present credentials that the server accepts."""

    default_reason = Reason.UNAUTHENTICATED


class PermissionDeniedError(QueryableStateError):
    """Ask for a grant: the caller may not do this with this state, or there is no such state."""

    default_reason = Reason.PERMISSION_DENIED


class SupersededError(QueryableStateError):
    """Stop: a newer run, attempt or server has taken over, or the batch is committed."""

    default_reason = Reason.FENCED


class JobError(QueryableStateError):
    """Fix the job: it breaks exactly-once or unique names, or its state does not fit."""

    default_reason = Reason.INCOMPATIBLE_STATE


class RestoreMismatchError(JobError):
    """Fix the restore: the savepoint or checkpoint does not fit the job."""

    default_reason = Reason.RESTORE_MISMATCH


class CheckpointError(QueryableStateError):
    """Check the checkpoint's storage: it cannot be read or written, or a file is missing."""

    default_reason = Reason.CHECKPOINT_FAILED


class SerializationError(QueryableStateError, TypeError):
    """Fix the value or its type: the value cannot be written as the declared type."""

    default_reason = Reason.INVALID_REQUEST


class CorruptDataError(QueryableStateError):
    """Ask an operator: stored or received bytes do not have the expected format."""

    default_reason = Reason.CORRUPT


class InternalError(QueryableStateError):
    """Ask an operator: a defect; the log of the process that raised it has the trace."""

    default_reason = Reason.INTERNAL


_OF_JOBS = (
    Reason.DUPLICATE_NAME, Reason.NON_DETERMINISTIC_INPUT, Reason.PARTIAL_BATCH,
    Reason.MISSING_BATCH_ID, Reason.INCOMPATIBLE_STATE, Reason.USER_FUNCTION_FAILED,
    Reason.SUBTASK_MISMATCH,
)  # fmt: skip
_LATER = (Reason.BEHIND, Reason.OVERLOADED, Reason.UNAVAILABLE, Reason.STOPPING)
_CLASSES: dict[errors_pb2.Reason.ValueType, type[QueryableStateError]] = {
    **dict.fromkeys(_OF_JOBS, JobError),
    **dict.fromkeys(_LATER, RetryLaterError),
    **dict.fromkeys((Reason.NOT_OWNER, Reason.LEASE_EXPIRED, Reason.NO_OWNER), PlacementError),
    **dict.fromkeys((Reason.FENCED, Reason.ALREADY_COMMITTED, Reason.STALE_TOKEN), SupersededError),
    **dict.fromkeys((Reason.CORRUPT, Reason.CHECKSUM_MISMATCH), CorruptDataError),
    **dict.fromkeys((Reason.PROTOCOL_MISMATCH, Reason.UNSUPPORTED), InvalidRequestError),
    Reason.INVALID_REQUEST: InvalidRequestError,
    Reason.KEY_TYPE_MISMATCH: KeyTypeError,
    Reason.DESCRIPTOR_MISMATCH: DescriptorMismatchError,
    Reason.UNKNOWN_JOB: UnknownJobError,
    Reason.UNKNOWN_STATE: UnknownStateError,
    Reason.AMBIGUOUS_JOB: AmbiguousJobError,
    Reason.UNKNOWN_KEY: UnknownKeyOrNamespaceError,
    Reason.LIMIT_EXCEEDED: LimitExceededError,
    Reason.UNAUTHENTICATED: AuthenticationError,
    Reason.PERMISSION_DENIED: PermissionDeniedError,
    Reason.DEADLINE_EXCEEDED: QueryTimeoutError,
    Reason.VERSION_GONE: VersionGoneError,
    Reason.STATE_LOST: StateLostError,
    **dict.fromkeys((Reason.CHECKPOINT_FAILED, Reason.STORAGE_WRITE_FAILED), CheckpointError),
    Reason.RESTORE_MISMATCH: RestoreMismatchError,
}


def _rebuild(kind: type[QueryableStateError], serialized: bytes) -> QueryableStateError:
    error = QueryableStateError.from_proto(errors_pb2.Error.FromString(serialized))
    return kind(error.message, **error._details())
