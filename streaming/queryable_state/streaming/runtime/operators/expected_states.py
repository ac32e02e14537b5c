"""States that an operator will declare, known to a task before its function has declared them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.operators.declared_states import declared_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec

_MOST = 256
_known: dict[tuple[bytes, str], Sequence[StateDescriptor]] = {}
"""By run and operator uid, for the tasks of this process."""


@dataclass(frozen=True)
class ExpectedStates:
    """The states of one operator in one run.

    The first task of a process that needs them opens a copy of the function with empty states, as
    the driver does.
    """

    key: tuple[bytes, str]
    pristine: Operator | None
    """A copy from before the function ran; None: the states are known."""

    @staticmethod
    def of(run_id: bytes, spec: OperatorSpec) -> ExpectedStates:
        """Prepares for `get`; called before the function runs."""
        key = (run_id, spec.uid)
        return ExpectedStates(key, None if key in _known else copy.deepcopy(spec.operator))

    def get(self) -> Sequence[StateDescriptor]:
        """The descriptors of all states."""
        if self.key not in _known:
            assert self.pristine is not None
            if len(_known) >= _MOST:
                _known.clear()
            _known[self.key] = declared_states(self.pristine)
        return _known[self.key]
