"""The shape of a random job: its times, its keys, its states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.spark.random_times.key_columns import KEY_COLUMNS, KeyColumns

if TYPE_CHECKING:
    from random import Random

PLAIN_KEYS = [f"k{number}" for number in range(7)]
ODD_KEYS = ["", "\0", "e\u0301", "é", "\U0001f511", "\ufeffa", "x" * 300]
LAST_KEY = "last"
FOR_EVER_MS = 10**12


@dataclass(frozen=True, kw_only=True)
class TimedShape:
    """Times are in milliseconds."""

    delay_ms: int = 30
    """Of the watermark."""
    tumbling_ms: int = 20
    lateness_ms: int = 25
    sliding_ms: tuple[int, int] = (30, 10)
    gap_ms: int = 12
    echo_ms: int = 15
    keys: list[str] = field(default_factory=lambda: PLAIN_KEYS)
    typed: KeyColumns = KEY_COLUMNS["long"]
    """Further key columns, by which the kept states are keyed."""
    mutable: bool = False
    """Kept values are of a mutable type."""
    ttl_ms: int = FOR_EVER_MS
    """Of the kept states; `FOR_EVER_MS`: they have none."""
    on_read: bool = False
    """Reads renew kept values."""
    returns_expired: bool = False

    @property
    def every_key(self) -> list[str]:
        """The keys, and the one that comes last."""
        return [*self.keys, LAST_KEY]

    def typed_key(self, key: str) -> Any:
        """The further key columns of a key, as clients ask for it."""
        values = self.typed.values[self.every_key.index(key)]
        return values[0] if len(values) == 1 else values

    def typed_json(self, key: str) -> dict[str, Any]:
        """The same in a row of the feed."""
        return self.typed.json(self.every_key.index(key))


def random_shape(random: Random) -> TimedShape:
    """Draws a shape."""
    slide = random.choice((5, 10, 15))
    return TimedShape(
        delay_ms=random.choice((0, 10, 30, 60)),
        tumbling_ms=random.choice((1, 7, 20, 50)),
        lateness_ms=random.choice((0, 25, 60)),
        sliding_ms=(slide * random.choice((1, 2, 3)), slide),
        gap_ms=random.choice((1, 5, 12, 40)),
        keys=random.choice((PLAIN_KEYS, ODD_KEYS)),
        typed=KEY_COLUMNS[random.choice(list(KEY_COLUMNS))],
        mutable=random.random() < 0.5,
        ttl_ms=random.choice((FOR_EVER_MS, FOR_EVER_MS, 300, 2_000)),
        on_read=random.random() < 0.5,
        returns_expired=random.random() < 0.5,
    )
