"""Type variable of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    W = TypeVar("W", default=Any)
else:
    from typing import TypeVar

    W = TypeVar("W")

__all__ = ["W"]
