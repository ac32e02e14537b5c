"""Renamed and dropped fields of the rows in a value type.

Stored values have fields by position, and names stand only in the schema versions. A renamed field
therefore changes the names in all stored schema versions: values written before are read under the
new name, by the job and by every client.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from queryable_state.wire.errors import JobError
from queryable_state.wire.schema.field_paths import child, elements, rows
from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from queryable_state.v1 import registration_pb2

_Renames = dict[str, dict[str, str]]
"""By path of a row: new names by old ones."""


@dataclass(frozen=True)
class FieldChanges:
    """What a request says of the fields of its values."""

    renamed: Mapping[str, str]
    """Old names by path in the new type."""
    dropped: frozenset[str]
    """Paths in the stored type, renamed fields under their new names."""

    @staticmethod
    def of(asked: registration_pb2.StateRegistration) -> FieldChanges:
        """The changes in a request."""
        return FieldChanges(
            {rename.path: rename.old_name for rename in asked.renamed_fields},
            frozenset(asked.dropped_fields),
        )

    def apply(self, versions: Sequence[TypeInfo], new: TypeInfo, where: str) -> list[TypeInfo]:
        """The stored types, ascending, with the names their fields have in the new one.

        JobError where the last one has fields that the new one lacks, and the new one has others,
        unless each field it lacks is dropped by name: that looks like a field with a new name.
        """
        if not versions:
            return []
        renames = self._renames(versions[-1], new)
        renamed = [_renamed(info, "", renames) for info in versions]
        gone = dict(_missing(renamed[-1], new, ""))
        gone = {path: info for path, info in gone.items() if path not in self.dropped}
        added = dict(_missing(new, renamed[-1], ""))
        if gone and added:
            old, fresh = next(iter(gone)), next(iter(added))
            name = old.rpartition(".")[2]
            raise JobError(
                f"{where}: its stored fields {_listed(gone)} are gone and its fields "
                f"{_listed(added)} are new, in one step: values stored before would be lost. "
                f"For a field with a new name call set_renamed_fields({{{fresh!r}: {name!r}}}) on "
                "the descriptor (renamed_fields on a stream); for fields that are really dropped "
                f"call set_dropped_fields([{', '.join(map(repr, gone))}]) (dropped_fields)"
            )
        return renamed

    def _renames(self, stored: TypeInfo, new: TypeInfo) -> _Renames:
        """The renames that are still to be made: later starts of a program repeat them."""
        wanted: _Renames = defaultdict(dict)
        for path, row in rows(new):
            for field in row.fields:
                old = self.renamed.get(child(path, field.name))
                if old is not None:
                    wanted[path][old] = field.name
        effective: _Renames = {}

        def look(info: TypeInfo, path: str) -> None:
            if info.kind == Kind.ROW:
                names = {field.name for field in info.fields}
                effective[path] = {
                    old: now
                    for old, now in wanted[path].items()
                    if old in names and now not in names
                }
            for _, inner, at in _parts(info, path, effective):
                look(inner, at)

        look(stored, "")
        return effective


def _renamed(info: TypeInfo, path: str, renames: _Renames) -> TypeInfo:
    """A stored type under the new names of its fields."""
    parts = [
        (name, _renamed(inner, at, renames)) for name, inner, at in _parts(info, path, renames)
    ]
    if info.kind == Kind.ROW:
        taken = set(renames.get(path, {}).values())
        olds = {field.name for field in info.fields}
        fields = []
        for field, (name, inner) in zip(info.fields, parts, strict=True):
            if name in taken and field.name == name:
                # An older field of that name was dropped since: nothing reads it any more.
                name = _unused(f"{name} (dropped)", olds | taken)
            fields.append(Field(name, inner))
        return replace(info, fields=tuple(fields))
    if info.kind == Kind.TUPLE:
        return replace(info, fields=tuple(Field("", inner) for _, inner in parts))
    return replace(info, element=parts[-1][1]) if parts else info


def _parts(info: TypeInfo, path: str, renames: _Renames) -> Iterator[tuple[str, TypeInfo, str]]:
    """What a type is made of: the new name of a field, its type, and its path by new names."""
    if info.kind == Kind.ROW:
        for field in info.fields:
            name = renames.get(path, {}).get(field.name, field.name)
            yield name, field.type, child(path, name)
    else:
        yield from (("", inner, at) for inner, at in elements(info, path))


def _missing(had: TypeInfo, has: TypeInfo, path: str) -> Iterator[tuple[str, TypeInfo]]:
    """Path and type of the fields of one type that another one lacks."""
    if had.kind != has.kind:
        return
    if had.kind == Kind.ROW:
        found = {field.name: field.type for field in has.fields}
        for field in had.fields:
            at = child(path, field.name)
            if field.name not in found:
                yield at, field.type
            else:
                yield from _missing(field.type, found[field.name], at)
    else:
        for (before, at), (after, _) in zip(elements(had, path), elements(has, path), strict=False):
            yield from _missing(before, after, at)


def _listed(fields: Mapping[str, TypeInfo]) -> str:
    return ", ".join(f"{path!r} ({info})" for path, info in fields.items())


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name
