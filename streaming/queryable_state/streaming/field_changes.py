"""Checks of the renamed and dropped fields that a user declares for a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.field_paths import child, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.wire.schema.types import TypeInfo


def checked_renames(
    where: str, types: Iterable[TypeInfo], renamed: Mapping[str, str]
) -> dict[str, str]:
    """The renames as old names by path. Raises InvalidRequestError if a path is not a field of the
    types, or the same row still has a field of the old name."""
    siblings: dict[str, set[str]] = {}
    for info in types:
        for path, row in rows(info):
            names = {field.name for field in row.fields}
            for name in names:
                siblings.setdefault(child(path, name), set()).update(names)
    for path, old in renamed.items():
        if path not in siblings:
            raise InvalidRequestError(
                f"{where}: renamed fields are given by their paths in the declared type, and "
                f"{path!r} is not one of {_listed(siblings)}"
            )
        if not old:
            raise InvalidRequestError(f"{where}: the old name of field {path!r} is empty")
        if old in siblings[path]:
            raise InvalidRequestError(
                f"{where}: field {path!r} cannot be renamed from {old!r}, which the same row still "
                "has; once a job has run with a rename, remove it from the program"
            )
    return dict(renamed)


def checked_drops(where: str, types: Iterable[TypeInfo], dropped: Iterable[str]) -> Sequence[str]:
    """The paths of dropped fields; raises InvalidRequestError if the types still have one."""
    paths = {child(path, f.name) for info in types for path, row in rows(info) for f in row.fields}
    if isinstance(dropped, str):
        raise InvalidRequestError(f"{where}: dropped fields are a list of paths, not {dropped!r}")
    wanted = tuple(dropped)
    for path in wanted:
        if path in paths:
            raise InvalidRequestError(
                f"{where}: field {path!r} is declared as dropped, but the declared type has it"
            )
    return wanted


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(paths))) or "no fields: the type contains no row"
