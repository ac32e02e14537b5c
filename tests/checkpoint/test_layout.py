"""Names in a state root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.layout import ChangelogPath
from queryable_state.wire.errors import InvalidRequestError

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)
NUMBERS = st.integers(0, 2**40)


@given(NAMES)
def test_any_text_is_one_name_and_comes_back(text: str) -> None:
    name = layout.quote(text)
    assert layout.unquote(name) == text
    assert name.isascii()
    assert not set(name) & set('/\\:*?"<>| ')
    assert name[0] not in "._"


@pytest.mark.parametrize("name", ["", "é" * 100, "x" * 201])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="choose another one"):
        layout.quote(name)


@given(st.builds(ChangelogPath, NUMBERS, NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS))
def test_the_path_of_a_changelog_says_whose_it_is(path: ChangelogPath) -> None:
    assert layout.parse_changelog_file(layout.changelog_file(path)) == path


@pytest.mark.parametrize(
    "path",
    [
        "changelog/3/_manifest-00000001",
        "changelog/x/a/0-1/1-1",
        "changelog/3/a/0-1",
        "a/3/b/0-1/1-1",
    ],
)
def test_other_paths_are_of_no_changelog(path: str) -> None:
    assert layout.parse_changelog_file(path) is None


def test_the_places_are_pinned() -> None:
    assert layout.root_of("s3://b/states/", "my job/1") == "s3://b/states/my%20job%2F1"
    assert layout.beside("/tmp/cp/") == "/tmp/cp.queryable-state"
    assert layout.resolve("/root", "shared/x") == "/root/shared/x"
    assert layout.resolve("/root", "s3://b/x") == "s3://b/x"
    assert layout.registrations_file(3, 12) == "registrations/00000003-000012"
    assert layout.epoch_file(3) == "epochs/00000003"
    assert (
        layout.changelog_file(ChangelogPath(12, "a b", 0, 63, 3, 77))
        == "changelog/12/a%20b/0-63/3-77"
    )
    assert layout.manifest_file(12, 3) == "changelog/12/_manifest-00000003"
    assert layout.metadata_file(layout.checkpoint_folder(7)) == "chk-7/_metadata"
    assert layout.metadata_file("") == "_metadata"
    assert layout.range_folder("chk-7", "_a", 0, 63) == "chk-7/%5Fa/0-63"
    assert layout.range_folder("", ".a", 0, 63) == "%2Ea/0-63"
    assert layout.shared_file(b"\x01\xff", 10) == "shared/01ff-10"
    assert layout.savepoint_name(bytes(range(16)), b"\xab" * 6) == "savepoint-000102-abababababab"
    assert layout.manifest_epoch("_manifest-00000012") == 12
    assert layout.manifest_epoch("manifest-1") is None
    assert layout.checkpoint_id("chk-12") == 12
    assert layout.checkpoint_id("chk-12a") is None
