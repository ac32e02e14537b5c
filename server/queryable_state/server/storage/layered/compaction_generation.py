"""How the base of an open view is found again after folds.

An epoch lasts from one fold to the next. A view is opened in one and reads the
images of all folds begun since, oldest first, before the base itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.layered.overlay import StateOverlay

if TYPE_CHECKING:
    from queryable_state.server.storage.base import BaseImage, RecordSource, StateBase


class CompactionGeneration:
    """The time between two folds of one base.

    Epochs point forward only: the images no view needs go with their epoch.
    """

    __slots__ = ("image", "next")

    def __init__(self) -> None:
        self.image: BaseImage | None = None
        self.next: CompactionGeneration | None = None

    def end(self, image: BaseImage | None) -> CompactionGeneration:
        """The epoch that begins as a fold does; without an image no open view needs one."""
        self.image = image
        self.next = CompactionGeneration()
        return self.next

    def resolve(self, base: StateBase, state_id: int) -> tuple[list[StateOverlay], RecordSource]:
        """The state as it was in this epoch: undoing layers, newest first, over a source."""
        undoing: list[StateOverlay] = []
        generation: CompactionGeneration | None = self
        while generation is not None:
            kept = generation.image.of(state_id) if generation.image is not None else None
            if isinstance(kept, StateOverlay):
                undoing.append(kept)
            elif kept is not None:
                return undoing, kept
            generation = generation.next
        return undoing, base.source(state_id)
