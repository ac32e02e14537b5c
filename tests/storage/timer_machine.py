"""The stateful test's steps and invariants on timers: the index holds what the records say."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.storage.model import TIMERS, Batch, times
from tests.storage.store_machine import StoreMachine

from queryable_state.wire.keys.timer_keys import store_key_of

_END_OF_TIME = (1 << 63) - 1


class TimerMachine(StoreMachine):
    """Fires timers and reads the due ones of any open view."""

    @rule(processing=times, event=st.none() | times)
    def fire(self, processing: int, event: int | None) -> None:
        """A batch that removes its due timers."""
        fired = list(map(store_key_of, self.committed_contents.due(processing, event)))
        self.run_a_batch(Batch([(TIMERS, [], fired, {})]))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), processing=times, event=st.none() | times)
    def read_due_timers(self, data: st.DataObject, processing: int, event: int | None) -> None:
        held = data.draw(st.sampled_from(self.held))
        due = held.contents.due(processing, event)
        assert list(held.view.due(TIMERS, processing, event)) == due
        after = data.draw(st.sampled_from([*held.contents.timers(), b"\x00", b"\x01"]))
        expected = held.contents.due(processing, event, after)
        assert list(held.view.due(TIMERS, processing, event, after)) == expected

    @invariant()
    def the_index_equals_the_records(self) -> None:
        """In the committed version, in the base, and in every open view."""
        if self.store is None:
            return
        assert self.store.next_timers(TIMERS) == self.committed_contents.next_timers()
        for version in (self.committed, self.base):
            with self.store.view(version) as view:
                timers = list(view.due(TIMERS, _END_OF_TIME, _END_OF_TIME))
                assert timers == self.versions[version].timers()
        for held in self.held:
            timers = list(held.view.due(TIMERS, _END_OF_TIME, _END_OF_TIME))
            assert timers == held.contents.timers()
