"""Which changelogs of a batch count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.changelog_folder import choose, list_sealed
from queryable_state.server.checkpoint.file_systems.storage import checksum, join
from queryable_state.v1.registration_pb2 import StateRegistration
from queryable_state.wire.changelog import write_changelog
from queryable_state.wire.changes import ChangeBlockBuilder, Token

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Place

KEY_GROUPS = 16


def file(uid: str, first: int, last: int, epoch: int, attempt: int) -> ChangelogFile:
    return ChangelogFile(
        batch_id=3,
        operator_uid=uid,
        path=f"{uid}/{first}-{last}/{epoch}-{attempt}",
        token=Token(run_epoch=epoch, task_attempt=attempt),
        first_key_group=first,
        last_key_group=last,
    )


FILES = st.builds(
    lambda uid, ends, epoch, attempt: file(uid, min(ends), max(ends), epoch, attempt),
    st.sampled_from(("a", "b")),
    st.tuples(st.integers(0, KEY_GROUPS - 1), st.integers(0, KEY_GROUPS - 1)),
    st.integers(1, 3),
    st.integers(0, 5),
)


@settings(max_examples=100)
@given(st.lists(FILES, max_size=12, unique_by=lambda each: each.path))
def test_each_key_group_is_of_the_highest_token_that_covers_it(files: list[ChangelogFile]) -> None:
    chosen = choose(files)
    for uid in ("a", "b"):
        for group in range(KEY_GROUPS):
            covering = [
                each
                for each in files
                if each.operator_uid == uid and each.first_key_group <= group <= each.last_key_group
            ]
            entries = [
                each
                for each in chosen
                if each.operator_uid == uid and each.first_key_group <= group <= each.last_key_group
            ]
            assert len(entries) == bool(covering)
            if covering:
                highest = max((e.token.run_epoch, e.token.task_attempt) for e in covering)
                assert (entries[0].token.run_epoch, entries[0].token.task_attempt) == highest
                assert entries[0].path in [each.path for each in covering]
    order = [(each.operator_uid, each.first_key_group) for each in chosen]
    assert sorted(set(order)) == order


def test_a_file_covered_in_its_middle_comes_in_two_pieces() -> None:
    chosen = choose([file("a", 0, 9, 1, 1), file("a", 3, 5, 2, 0), file("a", 4, 4, 1, 7)])
    assert [(each.path, each.first_key_group, each.last_key_group) for each in chosen] == [
        ("a/0-9/1-1", 0, 2),
        ("a/3-5/2-0", 3, 5),
        ("a/0-9/1-1", 6, 9),
    ]


def test_whole_files_of_the_same_offsets_are_sealed(place: Place) -> None:
    root = place.root()

    def write(path: str, batch: int, token: Token, digest: bytes, *, cut: int = 0) -> bytes:
        builder = ChangeBlockBuilder(7)
        builder.put(b"\x00\x00k\x00", b"v")
        blocks = builder.finish()
        data = write_changelog(
            blocks, builder.sums.seal(token), batch_id=batch, offsets_digest=digest
        )
        data = data[: len(data) - cut]
        root.storage.write(root.path(path), data)
        return data

    def path(attempt: int, uid: str = "a/b é") -> str:
        return layout.changelog_file(layout.ChangelogPath(3, uid, 0, 63, 2, attempt))

    good = write(path(5), 3, Token(run_epoch=2, task_attempt=5), b"digest")
    write(path(6), 3, Token(run_epoch=2, task_attempt=6), b"of other offsets")
    write(path(7), 3, Token(run_epoch=2, task_attempt=7), b"digest", cut=3)
    write(path(8), 3, Token(run_epoch=2, task_attempt=9), b"digest")
    write(path(9), 2, Token(run_epoch=2, task_attempt=9), b"digest")
    root.storage.write(join(root.uri, layout.manifest_file(3, 2)), b"")
    root.storage.write(join(root.uri, "changelog/3/stray"), b"")

    assert list_sealed(root.storage, root.uri, 3, b"digest", {}) == [
        ChangelogFile(
            batch_id=3,
            operator_uid="a/b é",
            path=path(5),
            size_bytes=len(good),
            checksum=checksum(good),
            token=Token(run_epoch=2, task_attempt=5),
            first_key_group=0,
            last_key_group=63,
        )
    ]
    assert list_sealed(root.storage, root.uri, 4, b"digest", {}) == []


def test_changes_of_another_operator_are_no_changelog(place: Place) -> None:
    """Two operators have the same keys and attempts; the ids of their states are their own."""
    root = place.root()
    states = {
        7: StateRegistration(state_id=7, operator_uid="a", state_name="count"),
        8: StateRegistration(state_id=8, operator_uid="b", state_name="count"),
    }
    token = Token(run_epoch=1, task_attempt=5)
    for uid, state_id in (("a", 8), ("b", 7), ("c", 9)):
        builder = ChangeBlockBuilder(state_id)
        builder.put(b"\x00\x00k\x00", b"v")
        data = write_changelog(
            builder.finish(), builder.sums.seal(token), batch_id=3, offsets_digest=b"digest"
        )
        named = layout.ChangelogPath(3, uid, 0, 63, 1, 5)
        root.storage.write(root.path(layout.changelog_file(named)), data)
    broken: dict[str, str] = {}
    [unknown] = list_sealed(root.storage, root.uri, 3, b"digest", states, broken)
    assert unknown.operator_uid == "c"
    assert broken == {
        "changelog/3/a/0-63/1-5": "it has the changes of another operator: of state 'count' of "
        "operator 'b'",
        "changelog/3/b/0-63/1-5": "it has the changes of another operator: of state 'count' of "
        "operator 'a'",
    }
