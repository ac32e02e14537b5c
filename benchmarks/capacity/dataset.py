"""Any number of keys whose values are computed from the key number, so that none are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

BATCH_KEYS = 100_000
"""Keys of one batch of the load."""
SHORTEST = 8
LONGEST = 50
_SAMPLE = 100_000
_KEY_DIGITS = 12
_MULTIPLIER = 0x5851F42D4C957F2D
_ODD = 0x9E3779B97F4A7C15
_64 = 2**64 - 1
_KEY_MASK = 16**_KEY_DIGITS - 1


def key_of(number: int) -> str:
    """A key of 19 bytes, distinct by number; successive numbers are not successive keys."""
    return f"sensor_{number * _ODD & _KEY_MASK:012x}"


def value_of(number: int, revision: int) -> str:
    """A value of 8 to 50 bytes: hexadecimal noise without common prefixes."""
    mixed = (number * _MULTIPLIER + revision * _ODD + 1) & _64
    mixed = (mixed ^ mixed >> 29) * _ODD & _64
    length = SHORTEST + (mixed >> 32) % (LONGEST - SHORTEST + 1)
    more = mixed * _MULTIPLIER & _64
    more ^= more >> 31
    return f"{mixed:016x}{more:016x}{more * _ODD & _64:016x}{mixed >> 56:02x}"[:length]


@dataclass(frozen=True)
class DerivedKeys(Sequence[str]):
    """The keys, computed on access."""

    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [key_of(each) for each in range(*number.indices(self.size))]
        if not 0 <= number < self.size:
            raise IndexError(number)
        # A numpy integer would overflow.
        return key_of(int(number))


@dataclass(frozen=True)
class DerivedRecords:
    """A number of keys and the value of each at every revision."""

    size: int

    @property
    def keys(self) -> DerivedKeys:
        """Key by number."""
        return DerivedKeys(self.size)

    def value(self, number: int, revision: int) -> str:
        """The value of a key at a revision."""
        return value_of(number, revision)

    @property
    def loads(self) -> int:
        """The number of batches (and revisions) that write every key once."""
        return -(-self.size // BATCH_KEYS)

    def load(self, batch: int) -> range:
        """The keys that one of these batches writes."""
        return range(batch * BATCH_KEYS, min((batch + 1) * BATCH_KEYS, self.size))

    def loaded(self, number: int) -> str:
        """The value of a key after the load."""
        return value_of(number, number // BATCH_KEYS)

    @property
    def raw_bytes_per_key(self) -> float:
        """Mean UTF-8 bytes of a key and its loaded value, of a sample."""
        numbers = range(0, self.size, max(1, self.size // _SAMPLE))
        return sum(len(key_of(n)) + len(self.loaded(n)) for n in numbers) / len(numbers)
