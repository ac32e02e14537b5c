"""What can be lost of a state root, and how a log says that the job is refused for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.faults.file_losses import Gone, losses, outcome_of
from tests.chaos.faults.program_faults import problem_of

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = 6
CHANGELOG = f"changelog/{NEWEST}/ledger/0-63/1-4"
LOST = Gone(what="changelog", paths=(CHANGELOG,), names=(CHANGELOG, "batch 6"), batch=NEWEST)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for batch in (NEWEST - 1, NEWEST):
        for name in ("ledger/0-63/1-4", "ledger/64-127/1-5", "_manifest-00000001"):
            path = tmp_path / "changelog" / str(batch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (tmp_path / "registrations").mkdir()
    for name in ("00000001-000001", "00000002-000001"):
        (tmp_path / "registrations" / name).touch()
    return tmp_path


def test_files_since_the_newest_checkpoint_can_be_lost(root: Path) -> None:
    found = list(losses(root, NEWEST))
    assert {gone.what: len(gone.paths) for gone in found} == {
        "newest changelog folder": 1,
        "newest registrations": 1,
        "manifest and changelog": 2,
        "changelog": 1,
    }
    assert {gone.batch for gone in found if gone.what == "changelog"} == {NEWEST - 1, NEWEST}
    assert [gone.paths for gone in found if gone.what == "newest registrations"] == [
        ("registrations/00000002-000001",)
    ]
    assert all((root / path).exists() for gone in found for path in gone.paths)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (f"CheckpointError: /root/{CHANGELOG} is missing", "refused"),
        ("CheckpointError: the root lacks changelogs (batch 6, operator 'ledger')", "refused"),
        ("PARTIAL_BATCH: Spark committed batch 6, and the operator did not run", "PARTIAL_BATCH"),
        ("PARTIAL_BATCH: Spark committed batch 5, and the operator did not run", ""),
        ("CHECKPOINT_FAILED: lost: Spark's commit of batch 6 is withdrawn", "PARTIAL_BATCH"),
        ("CheckpointError: the root lacks changelogs (batch 61, operator 'ledger')", ""),
        ("CheckpointError: something is missing", ""),
        (f"WARN {CHANGELOG} is slow", ""),
    ],
)
def test_a_refusal_has_a_type_and_names_the_file_or_the_batch(line: str, outcome: str) -> None:
    assert outcome_of(f"INFO begins\n{line}\nINFO ends", LOST, NEWEST) == outcome


def test_an_older_batch_is_not_withdrawn() -> None:
    line = "PARTIAL_BATCH: Spark committed batch 7"
    assert outcome_of(line, LOST, NEWEST + 1) == ""


def test_a_renamed_program_must_name_what_it_does_not_claim() -> None:
    refusal = "state of 'ledger'; which would start empty: 'ledger_renamed'"
    assert problem_of(refusal, "ledger", "ledger_renamed") == ""
    assert "not name" in problem_of("a thing would start empty", "ledger", "ledger_renamed")
    assert "no such refusal" in problem_of("Killed", "ledger", "ledger_renamed")
