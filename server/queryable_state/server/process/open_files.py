"""Limit of open files and connections of a process."""

from __future__ import annotations

import resource

# Enough for the connections of all public ports and the files of the stores.
_OPEN_FILES = 32_768


def allow_many_files() -> None:
    """Raises the soft limit, often 1,024, to 32,768 or the hard limit.

    Otherwise client connections could use up the descriptors that the stores need.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
