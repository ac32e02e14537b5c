"""Client for the keyed state of running jobs: asyncio here, threads in `.blocking`."""

from queryable_state.client._client import QueryableStateClient
from queryable_state.client._consistency import Consistency
from queryable_state.client._errors import ClientClosedError
from queryable_state.client._read_options import ReadOptions
from queryable_state.client._reading.connection_info import ConnectionInfo
from queryable_state.client._reading.elements import MapEntry, Presence, Size
from queryable_state.client._reading.explanation import ExplainStep, Explanation
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
from queryable_state.client._scans.scan import Scan
from queryable_state.wire.errors import (
    AmbiguousJobError,
    AuthenticationError,
    CorruptDataError,
    DescriptorMismatchError,
    InternalError,
    InvalidRequestError,
    KeyTypeError,
    LimitExceededError,
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
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.values.value_codec import PickledValue, Row

__all__ = [
    "AggregatingState",
    "AmbiguousJobError",
    "AuthenticationError",
    "ClientClosedError",
    "ConnectionInfo",
    "Consistency",
    "CorruptDataError",
    "DescriptorMismatchError",
    "ExplainStep",
    "Explanation",
    "InternalError",
    "InvalidRequestError",
    "JobInfo",
    "KeyResult",
    "KeyStatus",
    "KeyTypeError",
    "KvState",
    "LimitExceededError",
    "ListState",
    "MapEntry",
    "MapState",
    "MultiGet",
    "OperatorState",
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
    "Scan",
    "Size",
    "StateInfo",
    "StateLostError",
    "StateMeasure",
    "StatePart",
    "SubtaskState",
    "TypeInfo",
    "Types",
    "UnknownJobError",
    "UnknownKeyOrNamespaceError",
    "UnknownStateError",
    "ValueState",
    "VersionGoneError",
]
