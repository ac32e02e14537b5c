"""Export of a query's Spark checkpoint as of one committed batch N, for a savepoint.

    metadata                the query's id; a query started from the savepoint writes its own
    sources.json            the sources of the query, if it has recorded them
    offsets/N, offsets/N-1  Spark reads the offsets before the newest ones when it starts
    commits/N
    sources/<source>/       a file source's log up to its offset in offsets/N; files of other
                            sources hold their initial offsets and are the same for all batches
    state/                  versions up to N + 1 of Spark's own stateful operators

The folder cannot simply be copied: the running query may be batches ahead and removes files.
Spark's state stores name every file by its version and write a version once, so the files up to
version N + 1, which batch N created, are the stores as of batch N.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.streaming.spark.savepoints.query_sources import SOURCES, recorded
from queryable_state.wire.errors import CheckpointError, CorruptDataError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles


_ATTEMPTS = 5
_NOTHING_YET = "-"
_VERSIONED = re.compile(r"([0-9]+)[._]")
_OF_STORE = re.compile(r"[0-9]+(?:_[^.]*)?\.(?:delta|snapshot|changelog|zip)")

_COMPACT = ".compact"


class FileGoneError(Exception):
    """A file was removed after it was listed; list again."""


def file_log_offset(offset: str) -> int | None:
    """The log entry id in a file source's offset; None for offsets of other sources."""
    try:
        parsed = json.loads(offset)
    except ValueError:
        return None
    if isinstance(parsed, dict) and set(parsed) == {"logOffset"}:
        return int(parsed["logOffset"])
    return None


def is_file_log(content: bytes) -> bool:
    """True if the content is an entry of a file source's log."""
    lines = content.splitlines()
    if len(lines) < 2:
        return False
    try:
        entry = json.loads(lines[1])
    except ValueError:
        return False
    return isinstance(entry, dict) and {"path", "batchId"} <= set(entry)


def cut_log(
    names: Iterable[str], read: Callable[[str], bytes | None], end: int
) -> dict[str, bytes]:
    """The files, by name, of the log truncated after entry `end`.

    Existing files are copied. If Spark has removed one because a later `.compact` file contains its
    entries, that `.compact` file is rewritten without the entries after `end`. Raises FileGoneError
    if a file is gone and no `.compact` file contains its entries.
    """
    present = set(names)
    compacted = sorted(
        int(name.removesuffix(_COMPACT))
        for name in present
        if name.endswith(_COMPACT) and name.removesuffix(_COMPACT).isdigit()
    )
    base = max((number for number in compacted if number <= end), default=-1)
    wanted = [] if base < 0 else [f"{base}{_COMPACT}"]
    wanted += map(str, range(base + 1, end + 1))
    if present.issuperset(wanted):
        return {name: _content(name, read) for name in wanted}
    beyond = min((number for number in compacted if number > end), default=None)
    if beyond is None:
        missing = next(name for name in wanted if name not in present)
        raise FileGoneError(missing)
    name = f"{beyond}{_COMPACT}"
    return {f"{end}{_COMPACT}": _without_later(name, _content(name, read), end)}


def _content(name: str, read: Callable[[str], bytes | None]) -> bytes:
    content = read(name)
    if content is None:
        raise FileGoneError(name)
    return content


def _without_later(name: str, content: bytes, end: int) -> bytes:
    version, *entries = content.split(b"\n")
    try:
        kept = [entry for entry in entries if entry and int(json.loads(entry)["batchId"]) <= end]
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptDataError(
            f"{name} of a file source's log has an entry that is not in the format of Spark 4: "
            f"{problem!r}"
        ) from problem
    return b"\n".join([version, *kept])


def export_progress(
    files: SparkFiles, batch_id: int, storage: CheckpointStorage, folder: str
) -> None:
    """Writes the checkpoint of a query as of a committed batch to a folder of `storage`.

    The query may be running: if it removes a file during the export, the export starts over. Raises
    CheckpointError if the progress of the batch no longer exists, RetryLaterError if a file system
    is busy.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _Export(files, batch_id, storage, folder).write()
            return
        except (FileGoneError, RetryLaterError) as problem:
            if attempt < _ATTEMPTS:
                storage.delete_tree(folder)
                continue
            if isinstance(problem, RetryLaterError):
                raise
            raise CheckpointError(
                f"the progress of batch {batch_id} cannot be read from Spark's checkpoint "
                f"{files.root}: {problem} is gone. Spark removes it after some batches: try again, "
                "or increase spark.sql.streaming.minBatchesToRetain"
            ) from problem


def _is_of(name: str) -> bool:
    """True for a file of one version of a state store."""
    return _OF_STORE.fullmatch(name.rpartition("/")[2]) is not None


def newest_offsets(files: SparkFiles) -> bytes | None:
    """The newest file of `offsets/`; None if there is none."""
    newest = max((int(name) for name in files.names("offsets") if name.isdigit()), default=-1)
    return files.read(f"offsets/{newest}")


def source_offsets(content: bytes) -> dict[str, str]:
    """Parses a file of `offsets/`: the offset of each source by the source's key in the file.

    After the version and the metadata there is one line per source: in v1 the offset, in v2 the
    source's name and the offset.
    """
    version, *lines = content.decode().split("\n")
    lines = lines[1:]
    if version == "v1":
        return {str(number): line for number, line in enumerate(lines)}
    if version == "v2":
        return {name: offset for name, _, offset in (line.partition(":") for line in lines)}
    raise CorruptDataError(
        f"Spark's offsets have format {version!r}, but only v1 and v2 are supported: check for a "
        "newer Spark version"
    )


class BatchProgress:
    """The files of a query's checkpoint as of one committed batch.

    Files that `logs` contains are not read. Each method raises FileGoneError if a file is gone.
    """

    def __init__(
        self, files: SparkFiles, batch_id: int, logs: Mapping[str, bytes] | None = None
    ) -> None:
        self._files = files
        self._batch_id = batch_id
        self._logs = logs or {}

    def logs(self) -> Iterator[tuple[str, bytes]]:
        """Name and content of the logs, and of the record of the sources, if there is one."""
        batch = self._batch_id
        yield self._named(f"offsets/{batch}")
        yield self._named(f"commits/{batch}")
        if batch > 0:
            yield self._named(f"offsets/{batch - 1}")
        record = self._record()
        if record is not None:
            yield SOURCES, record

    def sources(self) -> Iterator[tuple[str, bytes]]:
        """Name and content of the sources' files."""
        for folder, offset in self._offsets_by_folder().items():
            yield from self._source(f"sources/{folder}", offset)

    def state(self) -> list[str]:
        """Names of the files of Spark's own stateful operators."""
        names = [name for name in self._files.walk("state") if not name.endswith(".crc")]
        return [name for name in names if not self._is_later(name)]

    def check_state(self) -> None:
        """Raises FileGoneError if Spark has removed the state as of the batch."""
        newest: dict[str, int] = {}
        for name in self.state():
            folder, _, file = name.rpartition("/")
            version = _VERSIONED.match(file)
            if version is not None:
                newest[folder] = max(newest.get(folder, 0), int(version[1]))
        stores = {name.rpartition("/")[0] for name in self._files.walk("state") if _is_of(name)}
        for folder in sorted(stores):
            if newest.get(folder) != self._batch_id + 1:
                raise FileGoneError(f"{folder}/{self._batch_id + 1}.*")

    def _record(self) -> bytes | None:
        return self._logs.get(SOURCES) or self._files.read(SOURCES)

    def _named(self, name: str) -> tuple[str, bytes]:
        return name, self.read(name)

    def _offsets_by_folder(self) -> dict[str, str]:
        """The offset of each source by its folder; without a record each offset has its own."""
        found = source_offsets(self.read(f"offsets/{self._batch_id}"))
        sources = recorded(self._record(), self._files.root)
        if sources is None:
            return found
        folders = {each.key: each.folder for each in sources}
        return {folders.get(key, key): offset for key, offset in found.items()}

    def _source(self, folder: str, offset: str) -> Iterator[tuple[str, bytes]]:
        end = file_log_offset(offset)
        if end is not None:
            names = self._files.names(folder)
            log = cut_log(names, lambda name: self._files.read(f"{folder}/{name}"), end)
            yield from ((f"{folder}/{name}", content) for name, content in log.items())
            return
        for name in self._files.walk(folder):
            content = self.read(name)
            # A file source without an offset had no file yet: all entries are later ones.
            if not name.endswith(".crc") and not (offset == _NOTHING_YET and is_file_log(content)):
                yield name, content

    def _is_later(self, name: str) -> bool:
        version = _VERSIONED.match(name.rpartition("/")[2])
        return version is not None and int(version[1]) > self._batch_id + 1

    def read(self, name: str) -> bytes:
        """The content of a file; raises FileGoneError if there is none."""
        content = self._logs.get(name)
        return _content(name, self._files.read) if content is None else content


class _Export:
    def __init__(
        self, files: SparkFiles, batch_id: int, storage: CheckpointStorage, folder: str
    ) -> None:
        self._files = files
        self._progress = BatchProgress(files, batch_id)
        self._storage = storage
        self._folder = folder

    def write(self) -> None:
        self._put("metadata", self._progress.read("metadata"))
        for name, content in (*self._progress.logs(), *self._progress.sources()):
            self._put(name, content)
        for name in self._progress.state():
            self._copy(name)

    def _put(self, name: str, content: bytes) -> None:
        self._storage.write(join(self._folder, name), content)

    def _copy(self, name: str) -> None:
        local = self._files.local(name)
        if local is None:
            self._put(name, self._progress.read(name))
            return
        try:
            self._storage.upload(local, join(self._folder, name))
        except CheckpointError:
            if local.exists():
                raise
            raise FileGoneError(name) from None
