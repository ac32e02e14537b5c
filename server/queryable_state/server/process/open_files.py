"""How many files and connections a process of ours may have open."""

from __future__ import annotations

import resource

# The connections of all public ports, and the files of the stores.
_WANTED = 32_768


def allow_many_files() -> None:
    """Raises the soft limit, which many systems set to 1,024, as far as the hard one allows.

    Otherwise connections of strangers take the descriptors that the stores need.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
