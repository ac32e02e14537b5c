"""Model of states with a TTL in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Cell:
    value: Any
    updated_ms: int


@dataclass
class Model:
    """What Flink's TTL states do; an expired value that is seen stays so for one more TTL."""

    ttl_ms: int
    on_read: bool
    returns_expired: bool
    wrap: Callable[[int], Any]
    now_ms: int = 0
    cells: dict[Any, Cell] = field(default_factory=dict)
    lists: dict[str, list[Cell]] = field(default_factory=dict)

    def is_live(self, cell: Cell) -> bool:
        return cell.updated_ms + self.ttl_ms > self.now_ms

    def is_seen(self, cell: Cell | None) -> bool:
        if cell is None:
            return False
        late_ms = self.ttl_ms if self.returns_expired else 0
        return cell.updated_ms + self.ttl_ms + late_ms > self.now_ms

    def read(self, place: Any) -> Cell | None:
        cell = self.cells.get(place)
        if cell is None or not self.is_seen(cell):
            return None
        if not self.is_live(cell):
            del self.cells[place]
        elif self.on_read:
            self.cells[place] = Cell(cell.value, self.now_ms)
        return cell

    def write(self, place: Any, value: Any) -> None:
        self.cells[place] = Cell(value, self.now_ms)

    def stored(self, name: str, key: str) -> Any:
        """What a state of a key has, as its reads return it; None: nothing. Renews nothing."""
        if name == "list":
            return [cell.value for cell in self.lists.get(key, []) if self.is_seen(cell)] or None
        if name == "map":
            return {
                at[2]: cell.value
                for at, cell in self.cells.items()
                if at[:2] == ("map", key) and self.is_seen(cell)
            } or None
        cell = self.cells.get((name, key))
        if cell is None or not self.is_seen(cell):
            return None
        return f"{cell.value[0]}/{cell.value[1]}" if name == "aggregating" else cell.value

    def apply(self, key: str, op: str, arg: int) -> str:
        name, _, operation = op.partition(".")
        if name == "list":
            result = self._list(key, operation, arg)
        elif name == "map":
            result = self._map(key, operation, arg)
        else:
            result = self._single(name, key, operation, arg)
        return f"{key} {op} {result!r}"

    def _single(self, name: str, key: str, operation: str, arg: int) -> Any:
        place = (name, key)
        if operation in ("value", "get"):
            cell = self.read(place)
            if cell is None:
                return None
            return f"{cell.value[0]}/{cell.value[1]}" if name == "aggregating" else cell.value
        before = self.cells.get(place)
        if operation == "clear":
            self.cells.pop(place, None)
        elif operation == "update" or not self.is_seen(before):
            self.write(place, (arg, 1) if name == "aggregating" else self.wrap(arg))
        else:
            assert before is not None
            value = before.value
            if name == "aggregating":
                self.write(place, (value[0] + arg, value[1] + 1))
            else:
                self.write(place, value + self.wrap(arg))
        return None

    def _map(self, key: str, operation: str, arg: int) -> Any:
        place = ("map", key, arg)
        entries = sorted(
            at[2]
            for at, cell in self.cells.items()
            if at[:2] == ("map", key) and self.is_seen(cell)
        )
        match operation:
            case "get":
                cell = self.read(place)
                return None if cell is None else cell.value
            case "contains":
                return self.read(place) is not None
            case "put":
                self.write(place, None if arg == 2 else self.wrap(arg))
            case "remove":
                self.cells.pop(place, None)
            case "clear":
                for at in [at for at in self.cells if at[:2] == ("map", key)]:
                    del self.cells[at]
            case "is_empty":
                return not entries
            case "len":
                return len(entries)
            case _:
                cells = [(entry, self.read(("map", key, entry))) for entry in entries]
                items = [(entry, cell.value) for entry, cell in cells if cell is not None]
                return {
                    "items": items,
                    "keys": [entry for entry, _ in items],
                    "values": [value for _, value in items],
                }[operation]
        return None

    def _list(self, key: str, operation: str, arg: int) -> Any:
        cells = [cell for cell in self.lists.get(key, []) if self.is_seen(cell)]
        match operation:
            case "add":
                self.lists[key] = [*cells, Cell(self.wrap(arg), self.now_ms)]
            case "update":
                self.lists[key] = [Cell(self.wrap(arg), self.now_ms) for _ in range(2)]
            case "clear":
                self.lists[key] = []
            case "len":
                return len(cells)
            case "is_empty":
                return not cells
            case "get":
                live = [cell for cell in cells if self.is_live(cell)]
                if not live:
                    self.lists[key] = []
                elif self.on_read:
                    self.lists[key] = [Cell(cell.value, self.now_ms) for cell in live]
                return [cell.value for cell in cells]
        return None
