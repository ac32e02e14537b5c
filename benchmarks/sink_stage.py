"""The operator of jobs without Spark: a sink that keeps the last value of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.runtime.operators.spec import OperatorSpec
from queryable_state.streaming.runtime.stage import StageSpec, StageTask
from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.server.coordinator import Coordinator
    from queryable_state.wire.security.tls import Tls


def sink_stage(
    coordinator: Coordinator,
    name: str,
    *,
    parallelism: int,
    max_parallelism: int,
    config_id: str = "",
    tls: Tls | None = None,
) -> StageTask:
    """The stage of a job of this name, which is also that of its queryable state."""
    descriptor = ValueStateDescriptor(name, Types.STRING())
    descriptor.set_queryable(name)
    operator = OperatorSpec(
        uid="sink",
        name="sink",
        depth=0,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        job_name=name,
        inputs=(
            InputSpec(
                key_columns=("key",),
                value_columns=("value",),
                value_type=Types.STRING(),
                check_column="check",
            ),
        ),
        key_type=Types.STRING(),
        operator=LatestValueSink(descriptor),
        output_type=None,
        secret=coordinator.secret,
        coordinator_address=coordinator.address,
        config_id=config_id,
        tls=tls,
    )
    return StageTask(StageSpec(operators=(operator,)))
