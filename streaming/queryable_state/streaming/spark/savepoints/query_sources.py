"""The sources of a query, in its checkpoint, and their match with the sources of a program.

Spark's offset log knows a source by its place in the plan only, or by the name of
`readStream.name()`. So a job records its sources in `sources.json` of its Spark checkpoint, one
entry per offset, in the order of the offsets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from queryable_state.streaming.spark.sources.marker_offset import MARKER_FORMAT
from queryable_state.wire.errors import CorruptDataError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

SOURCES: Final = "sources.json"
"""File in Spark's checkpoint location with the sources of the query."""

_FORMAT_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class QuerySource:
    """A source of a query, as one offset of its offset log has it."""

    key: str
    """The source's key in the offset log: its index, or its name in Spark."""
    folder: str
    """The source's folder below `sources/`; offsets of one source share it."""
    uid: str = ""
    """The uid of its stream, or its name in Spark; empty: it has neither."""
    kind: str
    """The format: `kafka`, `rate`; `file` for all formats of files."""
    location: str = ""
    """The path, topics or address that it reads; empty: unknown."""
    digest: str = ""
    """Digest of its options, without secrets."""

    @property
    def is_marker(self) -> bool:
        """True for a marker source."""
        return self.kind == MARKER_FORMAT

    @property
    def label(self) -> str:
        """Text for logs and errors."""
        read = f"{self.kind} {self.location}".rstrip()
        return f"{self.uid!r} ({read})" if self.uid else f"{read}, without uid"


def written(sources: Iterable[QuerySource]) -> bytes:
    """The content of `sources.json`."""
    entries = [asdict(each) for each in sources]
    return json.dumps({"version": _FORMAT_VERSION, "sources": entries}, indent=1).encode()


def recorded(content: bytes | None, where: str) -> list[QuerySource] | None:
    """The sources in a `sources.json`; None if there is no such file.

    Raises CorruptDataError, naming `where`, if it cannot be read.
    """
    if content is None:
        return None
    try:
        found = json.loads(content)
        if found["version"] != _FORMAT_VERSION:
            raise ValueError(f"its version is {found['version']}, and not {_FORMAT_VERSION}")
        return [QuerySource(**entry) for entry in found["sources"]]
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptDataError(
            f"{where}/{SOURCES} is no record of a query's sources: {problem!r}; remove it if the "
            "program has the same sources, in the same order, as when the checkpoint was written"
        ) from problem


def distinct(sources: Iterable[QuerySource]) -> list[QuerySource]:
    """Each source once, in the order of the offsets."""
    return list({each.folder: each for each in reversed(list(sources))}.values())[::-1]


class SourceMatch:
    """Which source of a program goes on from which recorded source.

    A uid on both sides decides. Otherwise the same format, location and options do, and as the
    only source of a job one of the same format. Several sources that are alike are matched in
    their order, if there are as many as before.
    Raises RestoreMismatchError, naming `where`, if that is ambiguous, or if a source with the same
    uid has another format.
    """

    def __init__(
        self, stored: Sequence[QuerySource], wanted: Sequence[QuerySource], where: str
    ) -> None:
        self.stored = distinct(stored)
        self.wanted = distinct(wanted)
        self._where = where
        self._of: dict[str, QuerySource] = {}
        self._left = list(self.stored)
        read = (_read, _location)
        for key in (*map(_with_uid, (*read, _nothing)), *map(_without_uid, read)):
            self._pair(key, key)
        for each in read:
            self._pair(_with_uid(each, named=False), _without_uid(each))
            self._pair(_without_uid(each), _with_uid(each, named=False))
        self._pair_only_source()

    def origin(self, source: QuerySource) -> QuerySource | None:
        """The recorded source of a source of the program; None: it is new."""
        return self._of.get(source.folder)

    @property
    def removed(self) -> list[QuerySource]:
        """Recorded sources with data that the program does not have."""
        return [each for each in self._left if not each.is_marker]

    @property
    def added(self) -> list[QuerySource]:
        """Sources with data that are not recorded."""
        return [each for each in self._unmatched if not each.is_marker]

    @property
    def _unmatched(self) -> list[QuerySource]:
        return [each for each in self.wanted if each.folder not in self._of]

    def _pair(
        self,
        key_of_stored: Callable[[QuerySource], Hashable],
        key_of_wanted: Callable[[QuerySource], Hashable],
    ) -> None:
        stored, wanted = _groups(self._left, key_of_stored), _groups(self._unmatched, key_of_wanted)
        for key in stored.keys() & wanted.keys():
            if len(stored[key]) != len(wanted[key]):
                raise RestoreMismatchError(
                    f"{self._where} has {len(stored[key])} sources {stored[key][0].label}, and the "
                    f"job has {len(wanted[key])}: which of them goes on is unknown. Call .uid() on "
                    "the streams of from_dataframe() or from_source() in the former program, take "
                    "another savepoint of it, and start from that"
                )
            for before, now in zip(stored[key], wanted[key], strict=True):
                self._join(before, now)

    def _pair_only_source(self) -> None:
        data = [[s for s in sources if not s.is_marker] for sources in (self.stored, self.wanted)]
        if [len(each) for each in data] != [1, 1]:
            return
        (before,), (now,) = data
        if now.folder not in self._of and before.kind == now.kind and not (before.uid and now.uid):
            self._join(before, now)

    def _join(self, before: QuerySource, now: QuerySource) -> None:
        if before.kind != now.kind:
            raise RestoreMismatchError(
                f"source {now.label} was {before.label} in {self._where}: the offsets of one "
                "format mean nothing to another. Give the new source another uid"
            )
        self._of[now.folder] = before
        self._left.remove(before)


def _groups(
    sources: Iterable[QuerySource], key_of: Callable[[QuerySource], Hashable]
) -> dict[Hashable, list[QuerySource]]:
    found: dict[Hashable, list[QuerySource]] = defaultdict(list)
    for source in sources:
        key = key_of(source)
        if key is not None:
            found[key].append(source)
    return found


def _read(source: QuerySource) -> Hashable:
    return source.kind, source.location, source.digest


def _location(source: QuerySource) -> Hashable:
    return source.kind, source.location


def _nothing(_source: QuerySource) -> Hashable:
    return ()


def _with_uid(
    key_of: Callable[[QuerySource], Hashable], *, named: bool = True
) -> Callable[[QuerySource], Hashable]:
    """The key of sources with a uid; it has the uid if `named`."""
    return lambda source: (source.uid if named else "", key_of(source)) if source.uid else None


def _without_uid(
    key_of: Callable[[QuerySource], Hashable],
) -> Callable[[QuerySource], Hashable]:
    """The key of sources without a uid."""
    return lambda source: None if source.uid else ("", key_of(source))
