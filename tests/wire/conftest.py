"""Types and values of the wire for property tests.

Session fixtures hand out strategies, to be drawn from with `st.data()`.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timezone
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import strategies as st

from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.types import Field, Kind, TypeInfo
from queryable_state.wire.values.pickled import PickledValue

_EXACT = Context(prec=80)
_ZONE: timezone = UTC
_INTEGER_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_PLAIN_SCALARS = (
    *_INTEGER_BITS,
    Kind.BOOLEAN,
    Kind.FLOAT,
    Kind.DOUBLE,
    Kind.STRING,
    Kind.BINARY,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_NTZ,
    Kind.TIME,
    Kind.INSTANT,
    Kind.BIG_INT,
)

# Zero bytes and their neighbours are what escaping is about.
_BINARY = st.binary(max_size=20) | st.text("\x00\x01\xff", max_size=6).map(
    lambda text: text.encode("latin-1")
)
_TEXT = st.text(max_size=12) | st.text("\x00\x01a", max_size=6)


def scalar_types() -> st.SearchStrategy[TypeInfo]:
    decimals: st.SearchStrategy[TypeInfo] = st.integers(1, 38).flatmap(
        lambda p: st.builds(
            TypeInfo, st.just(Kind.DECIMAL), precision=st.just(p), scale=st.integers(0, p)
        )
    )
    return st.sampled_from(_PLAIN_SCALARS).map(TypeInfo) | decimals


def _row(types: list[TypeInfo]) -> TypeInfo:
    return TypeInfo(Kind.ROW, fields=tuple(Field(f"f{i}", t) for i, t in enumerate(types)))


def _tuple(types: list[TypeInfo]) -> TypeInfo:
    return TypeInfo(Kind.TUPLE, fields=tuple(Field("", t) for t in types))


def key_types(*, nullable: bool) -> st.SearchStrategy[TypeInfo]:
    """Types of keys; with `nullable` some of them, or of their fields, are."""

    def or_nullable(types: st.SearchStrategy[TypeInfo]) -> st.SearchStrategy[TypeInfo]:
        return types | types.map(lambda t: replace(t, nullable=True)) if nullable else types

    def composite(inner: st.SearchStrategy[TypeInfo]) -> st.SearchStrategy[TypeInfo]:
        types = st.lists(inner, min_size=1, max_size=4)
        composites = types.map(_row) | types.map(_tuple)
        lists = inner.map(lambda t: TypeInfo(Kind.LIST, element=t, nullable=True))
        return or_nullable(composites) | lists if nullable else composites

    return st.recursive(or_nullable(scalar_types()), composite, max_leaves=6)


def value_types() -> st.SearchStrategy[TypeInfo]:
    def composite(inner: st.SearchStrategy[TypeInfo]) -> st.SearchStrategy[TypeInfo]:
        types = st.lists(inner, max_size=10)
        lists = inner.map(lambda t: TypeInfo(Kind.LIST, element=t))
        maps: st.SearchStrategy[TypeInfo] = st.builds(
            TypeInfo, st.just(Kind.MAP), key=key_types(nullable=False), element=inner
        )
        return types.map(_row) | types.map(_tuple) | lists | maps

    leaves = scalar_types() | st.just(TypeInfo(Kind.PICKLED))
    return st.recursive(leaves, composite, max_leaves=12)


def values_of(info: TypeInfo, *, nulls: bool) -> st.SearchStrategy[Any]:
    """Values of a type as they are read back; with `nulls` what it holds may be null."""
    if info.nullable:
        values = values_of(replace(info, nullable=False), nulls=nulls)
        # Lists in keys are tuples.
        return st.none() | (values.map(tuple) if info.kind == Kind.LIST else values)

    def inner(child: TypeInfo) -> st.SearchStrategy[Any]:
        values = values_of(child, nulls=nulls)
        return st.none() | values if nulls else values

    match info.kind:
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.FLOAT | Kind.DOUBLE:
            return st.floats(width=32 if info.kind == Kind.FLOAT else 64)
        case Kind.STRING:
            return _TEXT
        case Kind.BINARY:
            return _BINARY
        case Kind.DATE:
            return st.dates()
        case Kind.TIMESTAMP:
            return st.datetimes(timezones=st.just(_ZONE)).map(_unfolded)
        case Kind.TIMESTAMP_NTZ:
            return st.datetimes().map(_unfolded)
        case Kind.TIME:
            return st.times().map(lambda time: time.replace(fold=0))
        case Kind.INSTANT:
            return st.datetimes(timezones=st.just(_ZONE)).map(Instant.of_datetime)
        case Kind.BIG_INT:
            return st.integers(1 - 10**38, 10**38 - 1)
        case Kind.DECIMAL:
            most = 10**info.precision - 1
            return st.integers(-most, most).map(
                lambda n: Decimal(n).scaleb(-info.scale, context=_EXACT)
            )
        case Kind.PICKLED:
            return st.integers().map(lambda n: PickledValue(pickle.dumps(n)))
        case Kind.LIST:
            assert info.element is not None
            return st.lists(inner(info.element), max_size=12)
        case Kind.MAP:
            assert info.key is not None
            assert info.element is not None
            keys = values_of(info.key, nulls=False).filter(_equals_itself)
            return st.dictionaries(keys, inner(info.element), max_size=6)
        case Kind.ROW:
            names = [f.name for f in info.fields]
            return st.tuples(*(inner(f.type) for f in info.fields)).map(
                lambda values: make_row(names, values)
            )
        case Kind.TUPLE:
            return st.tuples(*(inner(f.type) for f in info.fields))
        case _:
            bits = _INTEGER_BITS[info.kind]
            return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _unfolded(time: datetime) -> datetime:
    # A fold says which of two equal local times is meant; no instant has one.
    return time.replace(fold=0)


def _equals_itself(key: Any) -> bool:
    return "nan" not in repr(key)


@dataclass(frozen=True)
class Wire:
    """The strategies."""

    types: st.SearchStrategy[TypeInfo]
    typed: st.SearchStrategy[tuple[TypeInfo, Any]]
    """A type and a value of it."""
    typed_pairs: st.SearchStrategy[tuple[TypeInfo, Any, Any]]
    """A type and two values of it."""


@pytest.fixture(scope="session")
def keys() -> Wire:
    """Everything that can be a key."""
    types = key_types(nullable=True)
    return Wire(
        types,
        types.flatmap(lambda t: st.tuples(st.just(t), values_of(t, nulls=False))),
        types.flatmap(
            lambda t: st.tuples(st.just(t), values_of(t, nulls=False), values_of(t, nulls=False))
        ),
    )


@pytest.fixture(scope="session")
def values() -> Wire:
    """Everything that can be a value."""
    types = value_types()
    return Wire(
        types,
        types.flatmap(lambda t: st.tuples(st.just(t), values_of(t, nulls=True))),
        types.flatmap(
            lambda t: st.tuples(st.just(t), values_of(t, nulls=True), values_of(t, nulls=True))
        ),
    )
