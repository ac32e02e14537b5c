"""Files of the state root that are gone while nothing of the job lives."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.checks.checker import Kind, Violation
from tests.chaos.faults.faults import wait_gone
from tests.chaos.faults.storage_faults import checkpoints
from tests.chaos.faults.withdrawals import Loss
from tests.chaos.processes import StuckError, kill, until

from queryable_state.server.checkpoint import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.chaos.site import Site

STARTS_S = 420.0
_STARTS = 3
_WITHDRAWN = "PARTIAL_BATCH"
_REFUSALS = re.compile(r"CheckpointError|CorruptDataError|CHECKPOINT_FAILED|CORRUPT_DATA")


@dataclass(frozen=True, kw_only=True)
class Gone:
    """Files or folders to lose together."""

    what: str
    paths: tuple[str, ...]
    """Relative to the root."""
    names: tuple[str, ...]
    """One of them is in any refusal: the file, or the batch."""
    batch: int = -1
    """The batch they are of; -1: of none."""


def lose_files(site: Site) -> str:
    """kill -9 of the driver, the executors and the servers; then stored files are gone.

    The job runs the newest batch again, or does not need the files, or is refused by an error that
    names the file or the batch. In that case the files come back.
    """
    site.wait(lambda: site.driver.running() and site.committed() >= 1, STARTS_S, "a batch to lose")
    site.driver.kill(python=True, jvm=True)
    processes = [*(s.pid for s in site.servers()), *(e.pid for e in site.executors())]
    kill(*processes)
    wait_gone(processes)
    newest = site.committed()
    gone = site.chance.choice(sorted(losses(site.root, newest), key=lambda each: each.what))
    site.losses.append(Loss(batch=newest, at=time.time(), committed_at=site.committed_at()[newest]))
    aside = site.folder / f"lost-{site.driver.starts}"
    _move(gone.paths, site.root, aside)
    # The batch behind may have been planned, with the file after those of this one.
    with site.input_held_back(site.batches()(newest).files.stop + 1):
        outcome = _go_on(site, gone, newest, aside)
    return f"{gone.what}, batch {newest} is the newest: {', '.join(gone.paths)}; {outcome}"


def losses(root: Path, newest: int) -> Iterator[Gone]:
    """What can be lost of a root, given the newest committed batch."""
    folder = layout.batch_folder(newest)
    if (root / folder).is_dir():
        names = (folder, f"batch {newest}")
        yield Gone(what="newest changelog folder", paths=(folder,), names=names, batch=newest)
    registrations = sorted(path.name for path in (root / layout.REGISTRATIONS).iterdir())
    if registrations:
        path = f"{layout.REGISTRATIONS}/{registrations[-1]}"
        # Without any registrations a root has no state.
        names = (registrations[-1], "no state")
        yield Gone(what="newest registrations", paths=(path,), names=names)
    base = max((metadata.version for _, metadata in checkpoints(root)), default=-1)
    for batch in range(base + 1, newest + 1):
        folder = layout.batch_folder(batch)
        files = sorted(str(p.relative_to(root)) for p in (root / folder).glob("*/*/*"))
        manifests = sorted(str(p.relative_to(root)) for p in (root / folder).glob("_manifest-*"))
        for file in files:
            names = (file, f"batch {batch}")
            if manifests:
                yield Gone(
                    what="manifest and changelog",
                    paths=(*manifests, file),
                    names=names,
                    batch=batch,
                )
            yield Gone(what="changelog", paths=(file,), names=names, batch=batch)


def outcome_of(log: str, gone: Gone, newest: int) -> str:
    """How the log of a driver says that the job was refused; empty: not, or not by name."""
    for line in log.splitlines():
        withdrawn = _WITHDRAWN in line or f"commit of batch {newest} is withdrawn" in line
        if withdrawn and gone.batch == newest and _names(line, f"batch {newest}"):
            return _WITHDRAWN
        if _REFUSALS.search(line) and any(_names(line, name) for name in gone.names):
            return "refused"
    return ""


def _names(line: str, name: str) -> bool:
    return re.search(rf"{re.escape(name)}\b", line) is not None


def _go_on(site: Site, gone: Gone, newest: int, aside: Path) -> str:
    """Starts the job until it goes on; puts the files back where it is refused."""
    site.driver.start()
    outcome, starts = _start(site, gone, newest), 1
    while outcome == _WITHDRAWN and starts < _STARTS:
        # A driver that ends at once may not have come to withdraw the commit.
        site.driver.kill(python=True, jvm=True)
        site.driver.start()
        outcome, starts = _start(site, gone, newest), starts + 1
    if outcome == _WITHDRAWN:
        text = f"{gone.paths} are gone: batch {newest} does not run again (see {site.driver.log})"
        site.violations.append(Violation(Kind.STUCK, text))
    if outcome == "goes on" and starts > 1:
        return f"{_WITHDRAWN}, goes on after {starts} starts"
    if outcome == "goes on":
        return outcome
    site.driver.kill(python=True, jvm=True)
    _move(gone.paths, aside, site.root)
    site.driver.start()
    return f"{outcome}, and put back"


def _start(site: Site, gone: Gone, newest: int) -> str:
    """What comes of a start: the job goes on, or what its log says."""

    def decided() -> bool:
        log = site.driver.log.read_text(errors="replace")
        refused = outcome_of(log, gone, newest)
        ended = site.driver.has_ended()
        # A job that is restarted by its strategy says so again and again; one that was
        # withdrawn ends.
        return site.committed() > newest or ended or refused == "refused"

    problem = ""
    try:
        until(decided, STARTS_S, "neither goes on nor is refused")
    except StuckError as stuck:
        problem = str(stuck)
    if site.committed() > newest:
        return "goes on"
    log = site.driver.log.read_text(errors="replace")
    outcome = outcome_of(log, gone, newest)
    if outcome:
        return outcome
    tail = " ".join(log.strip().splitlines()[-1:])[:300]
    text = f"{gone.paths} are gone, and not named: {problem or tail} (see {site.driver.log})"
    site.violations.append(Violation(Kind.NOT_REFUSED, text))
    return "not refused by name"


def _move(paths: Sequence[str], source: Path, target: Path) -> None:
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).rename(target / path)
