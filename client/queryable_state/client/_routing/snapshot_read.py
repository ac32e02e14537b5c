"""Many keys as of one committed batch, whichever servers have them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.gathering import gather, raise_if_refused
from queryable_state.client._routing.retries import delay_s
from queryable_state.wire.consistent_snapshot import snapshot_of
from queryable_state.wire.errors import VersionGoneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.client._reading.gathering import Gathering
    from queryable_state.client._routing.key_batcher import KeyBatcher


async def read_one_cut(batcher: KeyBatcher, keys: Sequence[Any], deadline: float) -> Gathering:
    """What became of keys; all that was read is of one batch.

    Keys whose answers are of a newer batch than others' are asked for again as of
    the older one. Where that is folded away by then, all begins anew; once time is
    over those keys have failed with `VersionGoneError`.
    """
    loop = asyncio.get_running_loop()
    attempts = 0
    while True:
        gathering = gather(batcher, keys, deadline)
        await gathering.future
        raise_if_refused(batcher, gathering)
        versions = gathering.versions()
        if not versions:
            return gathering
        cut = snapshot_of(versions)
        if not cut.again:
            return gathering
        older = gather(
            batcher.at(cut.version), [keys[position] for position in cut.again], deadline
        )
        await older.future
        raise_if_refused(batcher, older)
        for position, outcome in zip(cut.again, older.outcomes, strict=True):
            gathering.outcomes[position] = outcome
        gone = [known for known in older.failures() if isinstance(known, VersionGoneError)]
        if not gone:
            return gathering
        delay = delay_s(gone[0], attempts)
        if loop.time() + delay >= deadline:
            return gathering
        await asyncio.sleep(delay)
        attempts += 1
