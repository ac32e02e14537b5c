"""Name by which clients name a query that has none, from its checkpoint location."""

from __future__ import annotations

_NO_NAMES = ("checkpoint", "checkpoints")


def query_name(uri: str) -> str:
    """The last folder of a checkpoint location that is not just called `checkpoint`.

    `orders` for `s3://bucket/orders` and `/shared/orders/_checkpoint/`. If no folder has another
    name it is the last one; empty for `/`.
    """
    path = uri.partition("://")[2] if "://" in uri else uri.removeprefix("file:")
    parts = [part for part in path.split("/") if part]
    named = [part for part in parts if part.strip("_") not in _NO_NAMES]
    return (named or parts or [""])[-1]
