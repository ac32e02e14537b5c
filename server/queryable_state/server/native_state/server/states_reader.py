"""Reader of the states that a Spark checkpoint describes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.native_state.files.outcomes import (
    NotYetWrittenError,
    lost,
    of_committed,
)
from queryable_state.server.native_state.files.store_files import Provider
from queryable_state.server.native_state.files.store_schema import DEFAULT_COLUMN_FAMILY
from queryable_state.server.native_state.operators.operator_names import JOIN
from queryable_state.server.native_state.operators.operator_states import states_of
from queryable_state.server.native_state.operators.operator_tables import OperatorTables
from queryable_state.server.native_state.operators.physical_form import physical_form
from queryable_state.server.native_state.server.batch_facts import STRICT_DISTRIBUTION, BatchFacts
from queryable_state.server.native_state.server.query_states import (
    OperatorStates,
    QueryStates,
    check_distinct,
    registration_of,
)
from queryable_state.server.native_state.store.key_placement import KeyPlaces, PlacementCheck
from queryable_state.server.native_state.store.partition_files import PartitionFiles
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.native_state.files.operator_metadata import OperatorMetadata
    from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
    from queryable_state.server.native_state.files.store_schema import StoreSchema
    from queryable_state.server.native_state.operators.physical_form import PhysicalForm
    from queryable_state.server.native_state.operators.state_layout import StateLayout
    from queryable_state.wire.errors import QueryableStateError


class Described(NamedTuple):
    """The operators of a query and their states, as the checkpoint describes them."""

    operators: tuple[OperatorMetadata, ...]

    unreadable: frozenset[int]
    """The operators that cannot be described, because a file is damaged or lost."""


class StatesReader:
    """Reads the states of a query from its checkpoint. Blocking; usable from any thread."""

    def __init__(
        self,
        checkpoint: QueryCheckpoint,
        query_id: bytes,
        job_name: str,
        new_directory: Callable[[], Path],
        *,
        backend: str = "",
        kept_batches: int = 0,
    ) -> None:
        """`new_directory` makes paths for stores; the others are as in `PartitionFiles`."""
        self._checkpoint = checkpoint
        self._query_id = query_id
        self._job_name = job_name
        self._new_directory = new_directory
        self._backend = backend
        self._kept_batches = kept_batches
        self._unreadable: frozenset[int] = frozenset()
        """The operators that the newest `read` left out."""

    def read(self, facts: BatchFacts) -> QueryStates:
        """The states as of a committed batch.

        An operator that cannot be described, because a file is damaged or lost, is left out. Raises
        `CorruptDataError` if none is left, or for another file, `InvalidRequestError` if the query
        keeps none, UnsupportedFormatError for what this version does not know.
        """
        unreadable: dict[int, QueryableStateError] = {}
        operators = self._checkpoint.operators(facts.batch, unreadable)
        if not operators and not unreadable:
            root = self._checkpoint.root
            raise InvalidRequestError(
                f"the query of {root} keeps no state of Spark's own: only queries with "
                "aggregations, joins, deduplication or state functions have something to look up. "
                "If it is a job of this package, serve its state root with --checkpoint: the "
                "folder above `spark`, or the one beside it that ends with .queryable-state"
            )
        tables: list[OperatorTables] = []
        for operator in operators:
            try:
                schemas = self._schemas(operator)
                family_ids = self._family_ids(operator, schemas, facts)
            except (CorruptDataError, NotYetWrittenError) as problem:
                unreadable[operator.operator_id] = problem
                continue
            tables.append(OperatorTables(operator, schemas, facts.conf, family_ids))
        self._unreadable = frozenset(unreadable)
        names = {each.operator_id: each.name for each in operators}
        found = states_of(tables, [names.get(each, "") for each in unreadable])
        refusals = [
            *(
                _left_out(each, names.get(each, ""), problem, facts.batch)
                for each, problem in sorted(unreadable.items())
            ),
            *found.refusals,
        ]
        if not found.layouts:
            raise refusals[0]
        states = QueryStates(
            tuple(
                self._operator(
                    each,
                    facts,
                    [
                        layout
                        for layout in found.layouts
                        if layout.definition.operator_id == each.metadata.operator_id
                    ],
                )
                for each in tables
            ),
            tuple(refusals),
            Described(tuple(operators), self._unreadable),
        )
        check_distinct(list(states.registrations.values()))
        return states

    def operators(self, batch: int) -> Described:
        """Describes the operators as of a batch; equal descriptions mean equal states.

        Schemas and snapshots are read again only of the operators that were left out because of
        them.
        """
        unreadable: dict[int, QueryableStateError] = {}
        operators = self._checkpoint.operators(batch, unreadable)
        for operator in operators:
            if operator.operator_id in self._unreadable:
                try:
                    facts = BatchFacts.of(self._checkpoint, batch)
                    self._family_ids(operator, self._schemas(operator), facts)
                except (CorruptDataError, NotYetWrittenError) as problem:
                    unreadable[operator.operator_id] = problem
        return Described(tuple(operators), frozenset(unreadable))

    def _schemas(self, operator: OperatorMetadata) -> dict[str, StoreSchema]:
        return {
            store.name: self._checkpoint.schema(operator, store.name) for store in operator.stores
        }

    def _family_ids(
        self, operator: OperatorMetadata, schemas: Mapping[str, StoreSchema], facts: BatchFacts
    ) -> Mapping[str, int]:
        """The ids of the column families, as the newest snapshot of any partition has them.

        Not all partitions of operators without other families exist: aggregations without a key
        and limits have one. A partition with a damaged or lost file is passed over: whoever opens
        it names the file. Raises `CorruptDataError` if no other one has a snapshot.
        """
        damage: CorruptDataError | None = None
        for partition in range(operator.partitions):
            for source, store in enumerate(operator.stores):
                if schemas[store.name].column_families.keys() <= {DEFAULT_COLUMN_FAMILY}:
                    continue
                files = self._checkpoint.store(
                    operator.operator_id, partition, store.name, facts.conf
                )
                unique_id = facts.entry.unique_id(operator.operator_id, partition, source)
                try:
                    with of_committed(facts.batch):
                        snapshot = files.plan(facts.batch + 1, unique_id).snapshot
                        if snapshot is not None:
                            return snapshot.column_families
                except CorruptDataError as problem:
                    damage = damage or problem
        if damage is not None:
            raise damage
        return {}

    def _operator(
        self, tables: OperatorTables, facts: BatchFacts, layouts: Sequence[StateLayout]
    ) -> OperatorStates:
        operator = tables.metadata
        uid = f"{tables.name}-{operator.operator_id}"
        partitions = max(
            (layout.definition.partitions for layout in layouts), default=operator.partitions
        )
        # Spark's joins always require the exact clustering, whatever the setting says.
        placed = tables.name == JOIN or facts.conf.get(STRICT_DISTRIBUTION) == "true"
        places = KeyPlaces(layouts if placed else ())
        placed_by_hash = placed or partitions == 1
        registrations = [
            registration_of(
                layout.definition,
                self._query_id,
                self._job_name,
                uid,
                placed_by_hash=placed_by_hash,
            )
            for layout in layouts
        ]
        ids = [each.state_id for each in registrations]
        return OperatorStates(
            operator_id=operator.operator_id,
            uid=uid,
            partitions=partitions,
            placed_by_hash=placed_by_hash,
            sources=len(operator.stores),
            registrations=dict(zip(ids, registrations, strict=True)),
            layouts=dict(zip(ids, layouts, strict=True)),
            files=partial(self._files, operator, facts.conf, self._physical(tables, facts), places),
        )

    def _physical(self, tables: OperatorTables, facts: BatchFacts) -> list[PhysicalForm]:
        """Encoders of rows as raw records, one per source; empty if files hold raw records."""
        if self._checkpoint.provider(facts.conf) is not Provider.HDFS_BACKED:
            return []
        return [physical_form(tables, store.name) for store in tables.metadata.stores]

    def _files(
        self,
        operator: OperatorMetadata,
        conf: Mapping[str, str],
        physical: Sequence[PhysicalForm],
        places: KeyPlaces,
        partition: int,
    ) -> PartitionFiles:
        return PartitionFiles(
            [
                self._checkpoint.store(operator.operator_id, partition, store.name, conf)
                for store in operator.stores
            ],
            self._new_directory,
            RocksDBSettings(),
            placement=PlacementCheck(places, partition),
            physical=physical,
            backend=self._backend,
            kept_batches=self._kept_batches,
        )


def _left_out(
    operator_id: int, name: str, problem: QueryableStateError, batch: int
) -> QueryableStateError:
    """The refusal of an operator that cannot be described."""
    if isinstance(problem, NotYetWrittenError):
        problem = lost(problem, batch)
    what = f"operator {operator_id}, {name}" if name else f"operator {operator_id}"
    return CorruptDataError(f"{what} is left out: {problem}")
