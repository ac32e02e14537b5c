"""Packs fixtures into archives that the default tests read: without input, sources and Hadoop's
hidden checksums, and the same bytes for the same files."""

import tarfile
from pathlib import Path

ARCHIVES = Path(__file__).parent.parent / "fixtures"


def pack(folder: Path, name: str) -> Path:
    """Writes `fixtures/NAME.tar.xz` from a fixture's folder."""
    ARCHIVES.mkdir(exist_ok=True)
    target = ARCHIVES / f"{name}.tar.xz"
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and _is_kept(inside):
                archive.add(path, f"{name}/{inside}", filter=_plain)
    return target


def _is_kept(path: Path) -> bool:
    return not (
        path.parts[0] == "input" or path.parts[:2] == ("checkpoint", "sources") or _is_hidden(path)
    )


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry
