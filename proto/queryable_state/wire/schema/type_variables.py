"""Type variables of the values that a `TypeInfo`, a descriptor or a state carries.

A variable that nothing determines is `Any`: of a type given as Spark DDL, a type checker knows
nothing, and `ValueStateDescriptor` alone means `ValueStateDescriptor[Any]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Type checkers know typing_extensions without its package; Python has defaults since 3.13.
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    T_co = TypeVar("T_co", covariant=True, default=Any)
    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
    IN = TypeVar("IN", default=Any)
    IN1 = TypeVar("IN1", default=Any)
    IN2 = TypeVar("IN2", default=Any)
    ACC = TypeVar("ACC", default=Any)
    OUT = TypeVar("OUT", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    K = TypeVar("K")
    V = TypeVar("V")
    W = TypeVar("W")
    IN = TypeVar("IN")
    IN1 = TypeVar("IN1")
    IN2 = TypeVar("IN2")
    ACC = TypeVar("ACC")
    OUT = TypeVar("OUT")

__all__ = ["ACC", "IN", "IN1", "IN2", "OUT", "K", "T", "T_co", "V", "W"]
