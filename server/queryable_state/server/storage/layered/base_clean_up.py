"""Removal of gone values from a base, with the images that open views need."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.key_order import key_after

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from queryable_state.server.storage.base import BaseImage, StateBase
    from queryable_state.server.storage.layered.compaction_generation import CompactionGeneration
    from queryable_state.server.storage.layered.stack_view import StackView


class _LastImage(NamedTuple):
    state_id: int
    image: weakref.ref[BaseImage]
    generation: CompactionGeneration
    """The generation that began with the image."""


class BaseCleanUp:
    """Clean-up of one base, a step at a time; the caller holds the store's lock.

    Steps share an image until a view is opened or another state is cleaned up, so that a view
    that is open for long does not collect an image for each step.
    """

    def __init__(self, base: StateBase) -> None:
        self._base = base
        self._last: _LastImage | None = None

    def step(
        self,
        state_id: int,
        start: bytes,
        max_records: int,
        is_gone: Callable[[bytes], bool],
        generation: CompactionGeneration,
        views: Collection[StackView],
    ) -> tuple[bytes | None, CompactionGeneration]:
        """Removes expired records among the next `max_records`; open views keep reading them.

        Returns the key to continue from (None at the end) and the store's current generation.

        `generation` is the current one of the store, and `views` are its open views.
        """
        records = self._base.source(state_id).chunk(start, None, max_records)
        gone = dict.fromkeys(key for key, value in records if is_gone(value))
        if gone:
            image = None
            if views:
                image = self._shared_image(state_id, generation, views)
                if image is None:
                    image = self._base.preserve((state_id,))
                    generation = generation.end(image)
                    self._last = _LastImage(state_id, weakref.ref(image), generation)
            self._base.apply(state_id, gone, image)
        return key_after(records[-1][0]) if len(records) == max_records else None, generation

    def _shared_image(
        self, state_id: int, generation: CompactionGeneration, views: Collection[StackView]
    ) -> BaseImage | None:
        """The image of the last step, if every open view reads it."""
        last = self._last
        if (
            last is None
            or last.state_id != state_id
            or last.generation is not generation
            or any(view.is_in(generation) for view in views)
        ):
            return None
        return last.image()
