"""Damages of the files of a stopped query: lost, cut, changed and exchanged ones."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


def damage(random: Random, checkpoint: Path, *, file_checksums: bool, places_checked: bool) -> str:
    """Damages files at random; returns what it did, or nothing if there was nothing to damage.

    Bytes are only changed if each file has a checksum, and files of partitions exchanged only if
    the places of all keys are checked. No partition is copied over another one: if it has no
    keys, nothing tells that.
    """
    kinds = ["lose", "cut", "lose log"]
    if places_checked:
        kinds += ["exchange", "exchange files"]
    if file_checksums:
        kinds += ["flip", "flip"]
    kind = random.choice(kinds)
    files = _files(checkpoint / "state")
    match kind:
        case "lose log":
            logs = _files(checkpoint / "commits") + _files(checkpoint / "offsets")
            return _lose(random.choice(logs), checkpoint)
        case "lose":
            return _lose(random.choice(files), checkpoint)
        case "cut":
            path = random.choice(files)
            path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size)])
            _hidden(path).unlink(missing_ok=True)
            return f"cut {path.relative_to(checkpoint)}"
        case "flip":
            path = random.choice(files)
            data = bytearray(path.read_bytes())
            at = random.randrange(len(data))
            data[at] ^= 1 << random.randrange(8)
            path.write_bytes(data)
            return f"flipped byte {at} of {path.relative_to(checkpoint)}"
    return _between_partitions(random, checkpoint, kind)


def _between_partitions(random: Random, checkpoint: Path, kind: str) -> str:
    operator = random.choice([p for p in sorted((checkpoint / "state").iterdir()) if p.is_dir()])
    partitions = [p for p in sorted(operator.iterdir()) if p.name.isdigit()]
    if len(partitions) < 2:
        return ""
    one, other = random.sample(partitions, 2)
    named = f"{one.relative_to(checkpoint)} and {other.relative_to(checkpoint)}"
    if kind == "exchange files":
        names = sorted({p.relative_to(one) for p in _files(one)})
        names = [name for name in names if (other / name).exists()]
        if not names:
            return ""
        name = random.choice(names)
        _exchange(one / name, other / name, checkpoint)
        _exchange(_hidden(one / name), _hidden(other / name), checkpoint)
        return f"exchanged {name} of {named}"
    aside = checkpoint / "aside"
    aside.mkdir()
    for path in _all_files(one):
        if "_metadata" not in path.parts:
            _move(path, aside / path.relative_to(one))
    for source, target in ((other, one), (aside, other)):
        for path in _all_files(source):
            if "_metadata" not in path.parts:
                _move(path, target / path.relative_to(source))
    shutil.rmtree(aside)
    return f"exchanged {named}"


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _exchange(one: Path, other: Path, checkpoint: Path) -> None:
    if one.exists() and other.exists():
        aside = checkpoint / "aside"
        one.rename(aside)
        other.rename(one)
        aside.rename(other)


def _lose(path: Path, checkpoint: Path) -> str:
    path.unlink()
    _hidden(path).unlink(missing_ok=True)
    return f"lost {path.relative_to(checkpoint)}"


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _all_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _files(folder: Path) -> list[Path]:
    """The files that are not hidden and not empty."""
    return [p for p in _all_files(folder) if not p.name.startswith(".") and p.stat().st_size]
