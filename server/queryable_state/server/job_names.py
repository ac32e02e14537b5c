"""Jobs as callers name them: by id or by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.wire.errors import UnknownJobError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_ID = re.compile(
    "|".join(rf"{d}{{32}}|{d}{{8}}(?:-{d}{{4}}){{3}}-{d}{{12}}" for d in ("[0-9a-f]", "[0-9A-F]"))
)


class NamedJob(NamedTuple):
    """A job as far as its name matters."""

    job_id: bytes
    name: str
    is_running: bool


def job_id_of(text: str) -> bytes | None:
    """The id that a text is: 32 hex digits, plain or with the dashes of a UUID; else None.

    Letters are all small or all capital. Caches have spellings as keys: an id has these four.
    """
    return bytes.fromhex(text.replace("-", "")) if _ID.fullmatch(text) else None


def job_label(name: str, job_id: bytes) -> str:
    """A job as errors and logs name it."""
    digits = job_id.hex()
    return f"{name!r} ({digits})" if name else digits


def only_job(jobs: Iterable[NamedJob]) -> bytes:
    """The id of the only job that runs, or of the only job; raises `UnknownJobError`."""
    jobs = list(jobs)
    chosen = [job for job in jobs if job.is_running] or jobs
    if len(chosen) != 1:
        labels = [job_label(job.name, job.job_id) for job in chosen]
        several = f"{len(labels)} jobs are known: name one of {', '.join(labels)}"
        raise UnknownJobError(several if labels else "no job is known yet", candidates=labels)
    return chosen[0].job_id


def resolved_job(text: str, jobs: Iterable[NamedJob]) -> bytes:
    """The id of the job that a text names: its id, or its name.

    Of several jobs with the name: the running one, else the newest; `jobs` has the newest last.
    Raises `UnknownJobError`.
    """
    job_id = job_id_of(text)
    jobs = list(jobs)
    if job_id is not None and any(job.job_id == job_id for job in jobs):
        return job_id
    named = [job for job in jobs if job.name == text]
    if named:
        running = [job for job in named if job.is_running]
        return (running or named)[-1].job_id
    candidates = [job_label(job.name, job.job_id) for job in jobs]
    known = f"known: {', '.join(candidates)}" if candidates else "no job is known yet"
    raise UnknownJobError(
        f"no job has the id or name {shown(text)!r}; {known}", candidates=candidates
    )
