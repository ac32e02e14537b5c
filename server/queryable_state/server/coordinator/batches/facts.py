"""Facts of one committed batch, as its manifest needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """One batch, and the operators of its query."""

    batch_id: int
    offsets_digest: bytes
    """Empty: nobody has asked for it yet."""
    watermark_ms: int
    first_of_run: bool
    """Whether a run before may have begun it."""
    parallelisms: dict[str, tuple[int, int]]
    """By operator uid: parallelism and max parallelism."""

    def all_in(self, files: Iterable[ChangelogFile]) -> bool:
        """Whether these files, which do not overlap, are of all key groups of all operators."""
        groups = dict.fromkeys(self.parallelisms, 0)
        for file in files:
            if file.operator_uid in groups:
                groups[file.operator_uid] += file.last_key_group - file.first_key_group + 1
        return all(
            groups[uid] == max_parallelism
            for uid, (_, max_parallelism) in self.parallelisms.items()
        )

    def name_subtask(self, file: ChangelogFile) -> None:
        """Fills in the subtask that wrote a file, which only its range of key groups tells."""
        path = layout.parse_changelog_file(file.path)
        if path is None or file.parallelism or file.operator_uid not in self.parallelisms:
            return
        now, max_parallelism = self.parallelisms[file.operator_uid]
        key_groups = (path.first_key_group, path.last_key_group)
        # The present parallelism first: a range may be a subtask's at several.
        for parallelism in (now, *range(1, max_parallelism + 1)):
            index = path.first_key_group * parallelism // max_parallelism
            if key_group_range(index, parallelism, max_parallelism) == key_groups:
                file.index, file.parallelism = index, parallelism
                return
