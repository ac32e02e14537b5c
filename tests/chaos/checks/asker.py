"""Asks questions of every kind at random, and writes down what it is told."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.chaos.checks.answers import consistency_of, items_of, plain, refused, told
from tests.chaos.checks.reads import Mode, Read, Span, What
from tests.chaos.history.history import History
from tests.chaos.jobs.workload import (
    JOB_NAME,
    SHARES,
    START_MS,
    STEP_MS,
    TIMERS,
    WINDOW_MS,
    WINDOW_SUMS,
)

from queryable_state.client import (
    KeyStatus,
    TimeWindow,
    UnknownKeyOrNamespaceError,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from queryable_state.client import QueryableStateClient

_WHATS = {
    What.VALUE: 4,
    What.EXPLAINED: 1,
    What.ENTRY: 2,
    What.EXISTS: 2,
    What.SIZE: 2,
    What.SCAN: 4,
    What.MEASURE: 1,
}
MODES = (*[Mode.COMMITTED] * 11, *[Mode.UNCOMMITTED] * 3, *[Mode.AT_LEAST] * 4, *[Mode.WITHIN] * 2)
_WINDOWED = {What.WINDOW: 3, What.WINDOWS: 2}
_TIMED = {What.TIMERS: 3}
_SHARES = 5
_WINDOWS_BACK = 6
"""Windows are asked for that start up to so many before the newest rows."""


_STATE_OF = {
    # The state with entries.
    What.ENTRY: SHARES,
    What.WINDOW: WINDOW_SUMS,
    What.WINDOWS: WINDOW_SUMS,
    What.TIMERS: TIMERS,
}


class Asker:
    """One client's questions, as its seed has them."""

    def __init__(
        self,
        client: QueryableStateClient,
        states: Sequence[str],
        chance: random.Random,
        *,
        committed: Callable[[], int] = lambda: -1,
        modes: Sequence[Mode] = MODES,
    ) -> None:
        """`committed` knows of commits otherwise, as who has made them: those must be seen."""
        self._client = client
        self._plain = [state for state in states if state not in (TIMERS, WINDOW_SUMS)]
        timed = _TIMED if TIMERS in states else {}
        self._whats = _WHATS | timed | (_WINDOWED if WINDOW_SUMS in states else {})
        self._chance = chance
        self._committed = committed
        self._modes = modes

    async def ask(self) -> list[Read]:
        """One question; what it was answered, for each key or page. Every exception is, too."""
        chance = self._chance
        what = chance.choices([*self._whats], [*self._whats.values()])[0]
        # Some questions are of one state.
        state = _STATE_OF.get(what) or chance.choice(self._plain)
        mode, bound = self._mode()
        if what == What.MEASURE:
            mode, bound = Mode.COMMITTED, 0.0
        keys = History.keys_of(state)
        of_entry = what == What.ENTRY or (
            what == What.EXISTS and state == SHARES and chance.random() < 0.5
        )
        one = Read(
            state=state,
            key="" if what in (What.SCAN, What.MEASURE) else chance.choice(keys),
            element=self._element(what) if of_entry or what == What.WINDOW else None,
            started=time.time(),
            ended=0.0,
            what=what,
            mode=mode,
            bound=bound,
        )
        try:
            match what:
                case What.VALUE if chance.random() < 0.7:
                    return await self._many(one, chance.sample(keys, chance.randrange(1, 7)))
                case What.SCAN:
                    return await self._pages(one)
                case What.MEASURE:
                    return [await self._measured(one)]
                case _:
                    return [await self._one(one)]
        except UnknownKeyOrNamespaceError:
            return [replace(one, ended=time.time())]
        except Exception as refusal:  # noqa: BLE001 - the checker judges its class
            return [refused(one, refusal)]

    async def value(self, state: str, key: str) -> Read:
        """The committed value of one key: all windows or timers, if these are the state."""
        what = {TIMERS: What.TIMERS, WINDOW_SUMS: What.WINDOWS}.get(state, What.VALUE)
        one = Read(state=state, key=key, what=what, started=time.time(), ended=0.0)
        try:
            return await self._one(one)
        except UnknownKeyOrNamespaceError:
            return replace(one, ended=time.time())
        except Exception as refusal:  # noqa: BLE001 - the checker judges its class
            return refused(one, refusal)

    def _element(self, what: What) -> int:
        if what != What.WINDOW:
            return self._chance.randrange(_SHARES)
        newest = START_MS + max(self._committed(), 0) * STEP_MS
        back = self._chance.randrange(_WINDOWS_BACK) * WINDOW_MS
        return newest - newest % WINDOW_MS - back

    def _mode(self) -> tuple[Mode, float]:
        chance = self._chance
        mode = chance.choice(self._modes)
        if mode == Mode.AT_LEAST:
            batch = self._committed() + (chance.random() < 0.2)
            return (mode, float(batch)) if batch >= 0 else (Mode.COMMITTED, 0.0)
        return mode, chance.uniform(0.5, 20.0) if mode == Mode.WITHIN else 0.0

    async def _one(self, one: Read) -> Read:
        client, asked = self._client, (JOB_NAME, one.state, one.key)
        consistency = consistency_of(one)
        match one.what:
            case What.VALUE:
                state = await client.get_kv_state(*asked, consistency=consistency)
                return replace(one, value=plain(state), **told(state.info))
            case What.EXPLAINED:
                explained = await client.explain(*asked, consistency=consistency)
                if explained.error is not None:
                    raise explained.error
                assert explained.state is not None
                value = [plain(explained.state), explained.key_group]
                return replace(one, value=value, **told(explained.state.info))
            case What.ENTRY:
                entry = await client.get_map_entry(*asked, one.element, consistency=consistency)
                return replace(one, value=entry.value(), **told(entry.info))
            case What.WINDOW:
                assert one.element is not None
                window = TimeWindow(one.element, one.element + WINDOW_MS)
                state = await client.get_kv_state(*asked, window=window, consistency=consistency)
                return replace(one, value=plain(state), **told(state.info))
            case What.WINDOWS:
                windows = await client.get_windows(*asked, consistency=consistency)
                live = [[window.start, plain(state)] for window, state in windows.items()]
                return replace(one, value=live, **told(windows.info))
            case What.TIMERS:
                timers = await client.get_timers(*asked, consistency=consistency)
                pending = [[timer.clock.name, timer.timestamp_ms] for timer in timers]
                return replace(one, value=pending, **told(timers.info))
            case What.EXISTS:
                entry_of = () if one.element is None else (one.element,)
                present = await client.contains(*asked, *entry_of, consistency=consistency)
                return replace(one, value=bool(present), **told(present.info))
            case _:
                size = await client.size(*asked, consistency=consistency)
                return replace(one, value=size.elements, **told(size.info))

    async def _many(self, one: Read, keys: list[str]) -> list[Read]:
        cut = one.mode != Mode.UNCOMMITTED and self._chance.random() < 0.6
        one = replace(one, cut=secrets.randbits(53) if cut else 0)
        result = await self._client.multi_get(
            JOB_NAME, one.state, keys, one_cut=cut, consistency=consistency_of(one)
        )
        reads = []
        for each in result:
            read = replace(one, key=each.key)
            if each.status == KeyStatus.FAILED:
                assert each.error is not None
                reads.append(refused(read, each.error))
                continue
            assert each.info is not None
            value = None if each.state is None else plain(each.state)
            reads.append(replace(read, value=value, **told(each.info)))
        return reads

    async def _pages(self, one: Read) -> list[Read]:
        """A scan of all keys or some, in one page or in several one after the other."""
        chance = self._chance
        span = self._span(one.state)
        if chance.random() < 0.5 and one.mode != Mode.UNCOMMITTED:
            span = span._replace(limit=chance.randrange(4, 30))
        going_on = span.limit is not None and chance.random() < 0.7
        one = replace(one, cut=secrets.randbits(53) if going_on else 0)
        reads: list[Read] = []
        token = b""
        while not reads or (going_on and token):
            page = replace(one, span=span, started=time.time())
            try:
                async with self._client.scan(
                    JOB_NAME,
                    page.state,
                    limit=span.limit,
                    page_token=token,
                    keys_only=span.keys_only,
                    consistency=consistency_of(one),
                    **{
                        name: bound
                        for name in ("start", "end", "prefix")
                        if (bound := getattr(span, name)) is not None
                    },
                ) as scan:
                    items = await items_of(scan, with_batch=one.mode == Mode.UNCOMMITTED)
            except Exception as refusal:  # noqa: BLE001 - the checker judges its class
                return [*reads, refused(page, refusal)]
            assert scan.info is not None
            token = scan.page_token
            value = [items, bool(token), scan.complete]
            reads.append(replace(page, value=value, **told(scan.info)))
            if items:
                span = span._replace(after=items[-1][0])
        return reads

    def _span(self, state: str) -> Span:
        chance, keys = self._chance, History.keys_of(state)
        keys_only = chance.random() < 0.2
        match chance.randrange(5):
            case 0:
                return Span(prefix=chance.choice(keys)[:-1], keys_only=keys_only)
            case 1:
                start, end = sorted(chance.sample(keys, 2))
                return Span(start=start, end=end, keys_only=keys_only)
            case 2:
                return Span(start=chance.choice(keys), keys_only=keys_only)
            case _:
                return Span(keys_only=keys_only)

    async def _measured(self, one: Read) -> Read:
        measured = await self._client.measure(JOB_NAME, one.state)
        for part in measured.parts:
            if part.error is not None:
                raise part.error
        groups = [
            group
            for part in measured.parts
            for group in range(part.first_key_group, part.last_key_group + 1)
        ]
        ordered = groups == list(range(len(groups)))
        value = [groups[0], groups[-1], measured.complete and ordered] if groups else None
        return replace(one, value=value, ended=time.time())
