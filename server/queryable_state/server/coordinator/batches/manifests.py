"""Writer of manifests, which list the changelogs of a committed batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import BatchOperator, ChangelogFile, Manifest
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.changelog_folder import choose, choose_committed
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.batches.run_operators import RunOperators
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.fencing import Fencing
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots

MANIFEST_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class _BatchFacts:
    """One batch, and the operators of its query."""

    batch_id: int
    offsets_digest: bytes
    """Empty: nobody has asked for it yet."""
    watermark_ms: int
    first_of_run: bool
    """Whether a run before may have begun it."""
    parallelisms: dict[str, tuple[int, int]]
    """By operator uid: parallelism and max parallelism."""

    def all_in(self, files: Iterable[ChangelogFile]) -> bool:
        """Whether these files, which do not overlap, are of all key groups of all operators."""
        groups = dict.fromkeys(self.parallelisms, 0)
        for file in files:
            if file.operator_uid in groups:
                groups[file.operator_uid] += file.last_key_group - file.first_key_group + 1
        return all(
            groups[uid] == max_parallelism
            for uid, (_, max_parallelism) in self.parallelisms.items()
        )

    def name_subtask(self, file: ChangelogFile) -> None:
        """Fills in the subtask that wrote a file, which only its range of key groups tells."""
        path = layout.parse_changelog_file(file.path)
        if path is None or file.parallelism or file.operator_uid not in self.parallelisms:
            return
        now, max_parallelism = self.parallelisms[file.operator_uid]
        key_groups = (path.first_key_group, path.last_key_group)
        # The present parallelism first: a range may be a subtask's at several.
        for parallelism in (now, *range(1, max_parallelism + 1)):
            index = path.first_key_group * parallelism // max_parallelism
            if key_group_range(index, parallelism, max_parallelism) == key_groups:
                file.index, file.parallelism = index, parallelism
                return


class Manifests:
    """Writes the manifest of every batch of a commit round. Blocking.

    A changelog that a server reports takes precedence: it is the state that the server holds.
    Unreported key groups are looked up in the batch's folder, where the highest token wins.
    """

    def __init__(
        self,
        engine: Engine,
        state: CoordinatorState,
        operators: RunOperators,
        roots: JobRoots,
        fencing: Fencing,
    ) -> None:
        self._engine = engine
        self._state = state
        self._operators = operators
        self._roots = roots
        self._fencing = fencing

    def write(
        self,
        commit_round: CommitRound,
        seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
        unreported: list[ChangelogFile],
    ) -> None:
        """Writes the missing manifests; adds changelogs to `unreported` that no server reported.

        Keeps existing manifests. Raises if the root cannot be written or listed: call it again
        later. Raises SupersededError (FENCED) if another driver has taken over the job.
        """
        query_id = commit_round.query_id
        root = self._roots.of(query_id)
        if root is None:
            return
        for batch_id in range(commit_round.after + 1, commit_round.commit.version + 1):
            if batch_id < root.first_batch or root.manifest(batch_id) is not None:
                continue
            reports = [
                report.changelog
                for sealed in seals.values()
                for report in sealed
                if report.batch_id == batch_id and report.HasField("changelog")
            ]
            facts = self._facts(query_id, batch_id)
            if facts is None:
                return
            if not facts.offsets_digest:
                clocks = self._engine.clocks(query_id, batch_id)
                facts = replace(
                    facts, offsets_digest=clocks.offsets_digest, watermark_ms=clocks.watermark_ms
                )
            files = choose(reports)
            more: list[ChangelogFile] = []
            if facts.first_of_run or not facts.all_in(files):
                more = list(_without(_listed(root, facts), files))
                files = sorted([*files, *more], key=lambda f: (f.operator_uid, f.first_key_group))
            manifest = Manifest(
                format_version=MANIFEST_VERSION,
                batch_id=batch_id,
                run_epoch=root.epoch,
                offsets_digest=facts.offsets_digest,
                watermark_ms=facts.watermark_ms,
                commit_time_ms=commit_round.commit.commit_time_ms,
                changelogs=files,
                operators=batch_operators(
                    self._operators.expected(
                        query_id, batch_id, {file.operator_uid for file in files}
                    )
                ),
                registrations=root.registrations_name,
                sealed_before=sealed_operators(root.manifest(batch_id - 1)),
            )
            self._fencing.check(root)
            root.write_manifest(manifest)
            unreported += more

    def _facts(self, query_id: bytes, batch_id: int) -> _BatchFacts | None:
        """The facts of a batch for its manifest; None if the job was dropped."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(query_id)
            if job is None:
                return None
            clocks = job.run.clocks.get(batch_id)
            first = job.run.first_batch
            return _BatchFacts(
                batch_id=batch_id,
                offsets_digest=clocks.offsets_digest if clocks else b"",
                watermark_ms=clocks.watermark_ms if clocks else 0,
                first_of_run=first is None or batch_id <= first,
                parallelisms={
                    operator.uid: (operator.parallelism, operator.max_parallelism)
                    for operator in state.placement.operators(query_id)
                },
            )


def batch_operators(layouts: Iterable[OperatorLayout]) -> list[BatchOperator]:
    """Returns the entries of a manifest for operators."""
    return [
        BatchOperator(
            uid=layout.uid,
            parallelism=layout.parallelism,
            max_parallelism=layout.max_parallelism,
        )
        for layout in layouts
    ]


def sealed_operators(manifest: Manifest | None) -> list[str]:
    """The uids of the operators with changelogs of all their key groups in a batch.

    None of a manifest that is not there, which nobody needs any more or which is lost.
    """
    if manifest is None:
        return []
    covered: Counter[str] = Counter()
    for file in manifest.changelogs:
        covered[file.operator_uid] += file.last_key_group - file.first_key_group + 1
    return [each.uid for each in manifest.operators if covered[each.uid] == each.max_parallelism]


def list_committed(root: JobRoot, batch_id: int, offsets_digest: bytes) -> list[ChangelogFile]:
    """Returns the changelogs in the root that make up a committed batch. Blocking."""
    return choose_committed(
        root.storage,
        root.uri,
        batch_id,
        offsets_digest,
        root.states,
        allow_missing=root.config.allow_missing_state,
    )


def uncovered_key_groups(files: Iterable[ChangelogFile], layout: OperatorLayout) -> list[int]:
    """Returns the key groups of an operator that no changelog of it covers, ascending."""
    sealed: set[int] = set()
    for file in files:
        if file.operator_uid == layout.uid:
            sealed.update(range(file.first_key_group, file.last_key_group + 1))
    return [group for group in range(layout.max_parallelism) if group not in sealed]


def _listed(root: JobRoot, facts: _BatchFacts) -> list[ChangelogFile]:
    files = list_committed(root, facts.batch_id, facts.offsets_digest)
    for file in files:
        facts.name_subtask(file)
    return files


def clipped(files: Iterable[ChangelogFile], first: int, last: int) -> Iterator[ChangelogFile]:
    """Yields the entries that overlap key groups `first` to `last`, clipped to these."""
    for file in files:
        if file.first_key_group <= last and file.last_key_group >= first:
            yield _clip(file, max(file.first_key_group, first), min(file.last_key_group, last))


def _without(
    files: Iterable[ChangelogFile], claimed: Iterable[ChangelogFile]
) -> Iterator[ChangelogFile]:
    """Returns the files, clipped to key groups that no claimed file covers."""
    taken: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for file in claimed:
        taken[file.operator_uid].append((file.first_key_group, file.last_key_group))
    for file in files:
        first = file.first_key_group
        for start, end in sorted(taken[file.operator_uid]):
            if end < first or start > file.last_key_group:
                continue
            if first < start:
                yield _clip(file, first, start - 1)
            first = end + 1
        if first <= file.last_key_group:
            yield _clip(file, first, file.last_key_group)


def _clip(file: ChangelogFile, first: int, last: int) -> ChangelogFile:
    part = ChangelogFile()
    part.CopyFrom(file)
    part.first_key_group, part.last_key_group = first, last
    return part
