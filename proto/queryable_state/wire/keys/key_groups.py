"""Key groups: the fixed shards of a state, and their assignment to subtasks.

`key_group = pmod(xxhash64(key), max_parallelism)` on the signed value of Spark's
`xxhash64` (seed 42; the hash of a row or tuple chains the seed field by field), so that
the JVM shuffles a row to the subtask whose owner a client asks for its key. State that Spark
keeps itself has its Murmur3 hash in place of `xxhash64` (`Partitioner.SPARK_HASH`), so that key
groups are the partitions of Spark's state store.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xxhash import xxh64_intdigest

from queryable_state.v1.registration_pb2 import Partitioner
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, Reason
from queryable_state.wire.keys.chained_hash import SEED
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_hash import hasher
from queryable_state.wire.keys.spark_hash import spark_hasher
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.wire.keys.chained_hash import Hash

MAX_MAX_PARALLELISM = 32767
DEFAULT_MAX_PARALLELISM = 128

_SIGN = 1 << 63
_RANGE = 1 << 64
_ZERO = "\x00"
_END = b"\x00\x01"


class KeyGroups:
    """Key groups and wire keys of keys of one type. Immutable; usable from every thread.

    `of(value) -> int` is the key group. `wire_key(value) -> bytes` is the key on the wire and
    the prefix of its store keys: key group (2 bytes) and encoded key.
    `wire_keys(values) -> list[bytes]` are those of many keys. All raise KeyTypeError for a value
    of another type. Raises InvalidRequestError (UNSUPPORTED) for an unknown partitioner.
    """

    __slots__ = (
        "codec",
        "key_type",
        "max_parallelism",
        "of",
        "partitioner",
        "wire_key",
        "wire_keys",
    )

    of: Callable[[Any], int]
    wire_key: Callable[[Any], bytes]
    wire_keys: Callable[[Sequence[Any]], list[bytes]]

    def __init__(
        self,
        key_type: TypeInfo,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        partitioner: Partitioner.ValueType = Partitioner.XXHASH64,
    ) -> None:
        check_max_parallelism(max_parallelism)
        self.key_type = key_type
        self.max_parallelism = max_parallelism
        self.partitioner = partitioner
        self.codec = KeyCodec(key_type)
        if partitioner == Partitioner.SPARK_HASH:
            wire_key = _wire_key(self.codec, max_parallelism, spark_hasher(key_type), 32)
            self.wire_keys = lambda values: list(map(wire_key, values))
        elif partitioner != Partitioner.XXHASH64:
            raise InvalidRequestError(
                f"unknown partitioner {partitioner}: use a newer client or server",
                reason=Reason.UNSUPPORTED,
            )
        elif key_type.kind == Kind.STRING and not key_type.nullable:
            wire_key = _string_wire_key(self.codec, max_parallelism)
            self.wire_keys = _string_wire_keys(wire_key, max_parallelism)
        else:
            wire_key = _wire_key(self.codec, max_parallelism, hasher(key_type), 64)
            self.wire_keys = lambda values: list(map(wire_key, values))
        self.wire_key = wire_key

        def of(value: Any) -> int:
            key = wire_key(value)
            return key[0] << 8 | key[1]

        self.of = of

    def decode_key(self, wire_key: bytes) -> Any:
        """The key of a wire key."""
        if len(wire_key) < 2:
            raise CorruptDataError(f"a key of {len(wire_key)} bytes has no key group")
        value, end = self.codec.decode(wire_key, 2)
        if end != len(wire_key):
            raise CorruptDataError(f"{len(wire_key) - end} bytes follow a {self.key_type} key")
        return value

    def __reduce__(self) -> tuple[object, ...]:
        return (KeyGroups, (self.key_type, self.max_parallelism, self.partitioner))


def check_max_parallelism(max_parallelism: int) -> None:
    """Raises InvalidRequestError for a number of key groups outside 1 to 32767."""
    if not 1 <= max_parallelism <= MAX_MAX_PARALLELISM:
        raise InvalidRequestError(
            f"max parallelism is {max_parallelism}: it must be 1 to {MAX_MAX_PARALLELISM}"
        )


def subtask_of(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask of a key group."""
    return key_group * parallelism // max_parallelism


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """First and last key group (inclusive) of a subtask."""
    check_max_parallelism(max_parallelism)
    if not 1 <= parallelism <= max_parallelism or not 0 <= subtask < parallelism:
        raise InvalidRequestError(
            f"invalid subtask {subtask} of parallelism {parallelism}: parallelism is 1 to the max "
            f"parallelism, {max_parallelism}, and subtasks count from 0"
        )
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return first, last


@lru_cache(maxsize=64)
def _prefixes(max_parallelism: int) -> Sequence[bytes]:
    return [group.to_bytes(2, "big") for group in range(max_parallelism)]


def _wire_key(
    codec: KeyCodec, max_parallelism: int, hash_key: Hash, bits: int
) -> Callable[[Any], bytes]:
    """`hash_key` returns unsigned numbers of that many bits, which count as signed ones."""
    encode = codec.encode
    prefixes = _prefixes(max_parallelism)
    sign, unsigned_range = 1 << bits - 1, 1 << bits

    def wire_key(value: Any) -> bytes:
        # Encode first: it raises for a value of another type.
        key = encode(value)
        hashed = hash_key(value, SEED)
        if hashed >= sign:
            hashed -= unsigned_range
        return prefixes[hashed % max_parallelism] + key

    return wire_key


def _string_wire_key(codec: KeyCodec, max_parallelism: int) -> Callable[[Any], bytes]:
    """Same as `_wire_key` for strings, the most frequent type: encodes UTF-8 once."""
    encode = codec.encode
    prefixes = _prefixes(max_parallelism)
    # The sign does not matter to a remainder by a power of two, and a mask is cheaper.
    mask = 0 if max_parallelism & (max_parallelism - 1) else max_parallelism - 1

    def wire_key(value: Any) -> bytes:
        try:
            # Searching the text is cheaper: in bytes this takes a third of the whole call.
            escaped = _ZERO in value
            data: bytes = value.encode()
            hashed = xxh64_intdigest(data, SEED)
        except (AttributeError, TypeError, UnicodeEncodeError):
            # Raises the error of the value.
            return encode(value)
        if mask:
            prefix = prefixes[hashed & mask]
        else:
            prefix = prefixes[(hashed - _RANGE if hashed >= _SIGN else hashed) % max_parallelism]
        return prefix + encode(value) if escaped else prefix + data + _END

    return wire_key


def _string_wire_keys(
    wire_key: Callable[[Any], bytes], max_parallelism: int
) -> Callable[[Sequence[Any]], list[bytes]]:
    """Same as `wire_key` for many strings, with the least work for each."""
    mask = 0 if max_parallelism & (max_parallelism - 1) else max_parallelism - 1
    prefixes = _prefixes(max_parallelism)

    def wire_keys(values: Sequence[Any]) -> list[bytes]:
        try:
            if mask and _ZERO not in "".join(values):
                return [
                    prefixes[xxh64_intdigest(data, SEED) & mask] + data + _END
                    for data in map(str.encode, values)
                ]
        except (TypeError, UnicodeEncodeError):
            # The loop below raises the error of the wrong value.
            pass
        return list(map(wire_key, values))

    return wire_keys
