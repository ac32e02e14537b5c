"""Client for the keyed state of running jobs: asyncio here, threads in `.blocking`."""

from queryable_state.client._client import QueryableStateClient
from queryable_state.client._consistency import Consistency
from queryable_state.client._errors import ClientClosedError, ClientUnusableError
from queryable_state.client._read_options import ReadOptions
from queryable_state.client._reading.connection_info import ConnectionInfo
from queryable_state.client._reading.elements import ListSlice, MapEntry, Presence, Size
from queryable_state.client._reading.explanation import ExplainStep, Explanation
from queryable_state.client._reading.hot_keys import HotKey, HotKeys, KeySide, KeyTouches
from queryable_state.client._reading.info import ReadInfo, Role
from queryable_state.client._reading.listing import JobInfo, StateInfo
from queryable_state.client._reading.multi_get import KeyResult, KeyStatus, MultiGet
from queryable_state.client._reading.operator_state import OperatorState, SubtaskState
from queryable_state.client._reading.size_estimate import StateMeasure, StatePart
from queryable_state.client._reading.states import (
    AggregatingState,
    KvState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from queryable_state.client._reading.timed.key_windows import KeyWindows, WindowedKey
from queryable_state.client._reading.timed.pending_timers import PendingTimers
from queryable_state.client._scans.scan import Scan
from queryable_state.client._status.job_description import JobDescription
from queryable_state.client._status.job_status import EndedFinding, Finding, JobError
from queryable_state.client._status.server_status import ServerStatus
from queryable_state.client._watches.change import Change, ChangeKind
from queryable_state.client._watches.watch import Watch
from queryable_state.wire.calls.listeners import NothingListensError
from queryable_state.wire.errors import (
    AmbiguousJobError,
    AuthenticationError,
    CorruptDataError,
    DescriptorMismatchError,
    InternalError,
    InvalidRequestError,
    KeyTypeError,
    LimitExceededError,
    PermissionDeniedError,
    PlacementError,
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    StateLostError,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
    VersionGoneError,
)
from queryable_state.wire.keys.pending_timers import PendingTimer
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock
from queryable_state.wire.packaging.protocol_versions import __version__
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.row import Row, RowKind
from queryable_state.wire.schema.type_serializer import (
    PickleSerializer,
    SimpleTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.security.tls import Tls
from queryable_state.wire.values.pickled import PickledValue
from queryable_state.wire.values.serialized import SerializedValue

__all__ = [
    "AggregatingState",
    "AmbiguousJobError",
    "AuthenticationError",
    "Change",
    "ChangeKind",
    "ClientClosedError",
    "ClientUnusableError",
    "Clock",
    "ConnectionInfo",
    "Consistency",
    "CorruptDataError",
    "DescriptorMismatchError",
    "EndedFinding",
    "ExplainStep",
    "Explanation",
    "Finding",
    "HotKey",
    "HotKeys",
    "Instant",
    "InternalError",
    "InvalidRequestError",
    "JobDescription",
    "JobError",
    "JobInfo",
    "KeyResult",
    "KeySide",
    "KeyStatus",
    "KeyTouches",
    "KeyTypeError",
    "KeyWindows",
    "KvState",
    "LimitExceededError",
    "ListSlice",
    "ListState",
    "MapEntry",
    "MapState",
    "MultiGet",
    "NothingListensError",
    "OperatorState",
    "PendingTimer",
    "PendingTimers",
    "PermissionDeniedError",
    "PickleSerializer",
    "PickledValue",
    "PlacementError",
    "Presence",
    "QueryTimeoutError",
    "QueryableStateClient",
    "QueryableStateError",
    "ReadInfo",
    "ReadOptions",
    "Reason",
    "ReducingState",
    "RetryLaterError",
    "Role",
    "Row",
    "RowKind",
    "Scan",
    "SerializedValue",
    "ServerStatus",
    "SimpleTypeSerializerSnapshot",
    "Size",
    "StateInfo",
    "StateLostError",
    "StateMeasure",
    "StatePart",
    "SubtaskState",
    "TimeWindow",
    "Tls",
    "TypeInfo",
    "TypeSerializer",
    "TypeSerializerSchemaCompatibility",
    "TypeSerializerSnapshot",
    "Types",
    "UnknownJobError",
    "UnknownKeyOrNamespaceError",
    "UnknownStateError",
    "ValueState",
    "VersionGoneError",
    "Watch",
    "WindowedKey",
    "__version__",
]
