"""Versions of the protocols, and the refusal of a peer that shares none.

Each process speaks a range of versions; two processes use the newest one that both speak. A
version grows only if the other side must act differently: protobuf ignores fields that it does
not know, so that an added field needs no new version, and the unary gRPC API has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from queryable_state.wire.errors import InvalidRequestError, Reason

PACKAGE = "spark-queryable-state"


def _installed_version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "0+unknown"


__version__ = _installed_version()
"""Version of the installed package; `0+unknown` if it runs from a folder or zip file."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Oldest and newest version of one protocol that a process speaks."""

    oldest: int
    newest: int

    def common(self, other: VersionRange) -> int:
        """The newest version that both speak; 0: none."""
        newest = min(self.newest, other.newest)
        return newest if newest >= max(self.oldest, other.oldest, 1) else 0

    def __str__(self) -> str:
        if self.oldest == self.newest:
            return f"version {self.oldest}"
        return f"versions {self.oldest} to {self.newest}"


FRAMES = VersionRange(1, 1)
"""Versions of the frame protocol: clients and proxies to public ports (docs/frame-protocol.md)."""

INTERNAL = VersionRange(1, 1)
"""Versions of the internal protocols: state servers, proxies and tasks to the coordinator, tasks
and the coordinator to state servers. Every signed call carries them."""


def version_mismatch(
    protocol: str, mine: str, versions: VersionRange, other: str, others: VersionRange
) -> InvalidRequestError:
    """The refusal if two processes share no version: names both, and the one to upgrade."""
    older = other if others.newest < versions.oldest else mine
    return InvalidRequestError(
        f"{mine} (package version {__version__}) speaks {versions} of the {protocol}, "
        f"{other} speaks {others}: {older} is older; upgrade the package {PACKAGE} there",
        reason=Reason.PROTOCOL_MISMATCH,
    )
