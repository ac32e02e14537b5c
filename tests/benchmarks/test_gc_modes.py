"""The garbage collection modes of the client process."""

from __future__ import annotations

import gc

from benchmarks.gc_modes import TUNED_THRESHOLDS, GcMode, collecting


def test_tuned_mode_freezes_objects_and_restores_the_collector() -> None:
    before = gc.get_threshold()
    with collecting(GcMode.TUNED):
        assert gc.get_threshold() == TUNED_THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_default_mode_leaves_the_collector_alone() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    with collecting(GcMode.DEFAULT):
        assert (gc.get_threshold(), gc.get_freeze_count()) == before
