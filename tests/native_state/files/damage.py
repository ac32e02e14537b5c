"""The only outcome of damaged bytes besides being read: a typed error that names the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "/state/0/0/7.changelog"


@contextmanager
def suppress_named() -> Iterator[None]:
    """Accepts an error of damage if it names `FILE`."""
    try:
        yield
    except (CorruptDataError, UnsupportedFormatError) as problem:
        if FILE not in problem.message:
            raise
