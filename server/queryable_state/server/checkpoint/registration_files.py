"""Registration files of a state root: one file an epoch and change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.framing import check_format, read_message, write_message
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_ATTEMPTS = 100
_NAME = re.compile(r"([0-9]+)-([0-9]+)")


class RegistrationFiles:
    """Reads and writes registrations; those of the highest epoch and sequence are valid.

    Blocking, usable from every thread.
    """

    def __init__(self, root: str, storage: CheckpointStorage) -> None:
        self._root = root
        self._storage = storage

    def newest(self) -> tuple[str, RootRegistrations | None]:
        """File name and content of the newest registrations; empty and None if there are none.

        Raises CorruptDataError if they cannot be read.
        """
        names = self._names()
        if not names:
            return "", None
        name = names[-1][2]
        path = join(self._root, layout.REGISTRATIONS, name)
        record = read_message(RootRegistrations, self._storage.read(path), path)
        check_format(record.format_version, path)
        return name, record

    def write(self, epoch: int, record: RootRegistrations) -> str:
        """Writes registrations as the newest ones of an epoch; returns their file name."""
        data = write_message(record)
        sequence = max(
            (sequence for of_epoch, sequence, _ in self._names() if of_epoch == epoch), default=0
        )
        for _ in range(_ATTEMPTS):
            sequence += 1
            name = layout.registrations_file(epoch, sequence)
            path = join(self._root, name)
            if self._storage.create(path, data) or self._storage.read(path) == data:
                return name.rpartition("/")[2]
        raise CheckpointError(
            f"could not write the registrations of {self._root}: other processes wrote them "
            f"{_ATTEMPTS} times meanwhile: stop the other drivers that run this job"
        )

    def _names(self) -> list[tuple[int, int, str]]:
        """Epoch, sequence and name of each file, ascending."""
        names = self._storage.list(join(self._root, layout.REGISTRATIONS))
        found = [_NAME.fullmatch(name) for name in names]
        return sorted((int(each[1]), int(each[2]), each[0]) for each in found if each is not None)


def registrations_order(name: str) -> tuple[int, int]:
    """Epoch and sequence of a registrations file; any other name sorts before all files."""
    found = _NAME.fullmatch(name)
    return (-1, -1) if found is None else (int(found[1]), int(found[2]))
