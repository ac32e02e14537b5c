"""Compaction generations: the history that lets an open view read the base as it was.

A generation of the base lasts from one compaction, or one step of clean-up, to the next.
A view is opened in one and reads the images of all later ones, oldest first, before the base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.overlay import StateOverlay

if TYPE_CHECKING:
    from queryable_state.server.storage.base import BaseImage, StateBase
    from queryable_state.server.storage.record_source import RecordSource


class CompactionGeneration:
    """The state of the base between two compactions.

    Generations refer forward only, so an image that no view needs is garbage collected.
    """

    __slots__ = ("image", "next")

    def __init__(self) -> None:
        self.image: BaseImage | None = None
        self.next: CompactionGeneration | None = None

    def end(self, image: BaseImage | None) -> CompactionGeneration:
        """Returns the next generation, which begins with a compaction or a clean-up.

        `image` is None if no open view needs the old records.
        """
        self.image = image
        self.next = CompactionGeneration()
        return self.next

    def resolve(self, base: StateBase, state_id: int) -> tuple[list[StateOverlay], RecordSource]:
        """The state as of this generation: undo overlays, newest first, and their source."""
        undo: list[StateOverlay] = []
        generation: CompactionGeneration | None = self
        while generation is not None:
            image = generation.image.of(state_id) if generation.image is not None else None
            if isinstance(image, StateOverlay):
                undo.append(image)
            elif image is not None:
                return undo, image
            generation = generation.next
        return undo, base.source(state_id)
