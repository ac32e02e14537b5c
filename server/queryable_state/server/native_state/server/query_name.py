"""Name of a query that has none, from the place of its checkpoint."""

from __future__ import annotations

_GENERIC = ("checkpoint", "checkpoints")


def query_name(uri: str) -> str:
    """The last folder of a checkpoint's URI that is not called `checkpoint`, as any could be."""
    folders = [part for part in uri.split("/") if part]
    named = [part for part in folders if part.strip("_") not in _GENERIC]
    return (named or folders)[-1]
