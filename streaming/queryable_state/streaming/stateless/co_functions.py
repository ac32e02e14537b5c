"""Functions over the elements of two connected streams, without state.

The call order is that of `stateless.functions`. The elements of a batch of the first stream and of
the second one may interleave in any order.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from queryable_state.streaming.functions import Function
from queryable_state.streaming.stateless.functions import ElementContext

if TYPE_CHECKING:
    from collections.abc import Iterable

_ElementContext: TypeAlias = ElementContext


class CoMapFunction(Function):
    """Maps each element of two streams to one element of a common stream."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The output for an element of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The output for an element of the second stream."""


class CoFlatMapFunction(Function):
    """Maps each element of two streams to any number of elements of a common stream."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the outputs for an element of the first stream; None for none."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the outputs for an element of the second stream; None for none."""


class CoProcessFunction(Function):
    """Maps the elements of two streams to any number of elements and side outputs."""

    Context: TypeAlias = _ElementContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: ElementContext) -> Iterable[Any] | None:
        """Processes an element of the first stream; outputs as of a `ProcessFunction`."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: ElementContext) -> Iterable[Any] | None:
        """Processes an element of the second stream; outputs as of a `ProcessFunction`."""
