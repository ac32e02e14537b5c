"""Layout of a state root: the names of its folders and files.

    registrations/<epoch>-<sequence>                                  RootRegistrations
    epochs/<epoch>                                                    the run that took it
    changelog/<batch>/<uid>/<first>-<last>/<epoch>-<attempt>          wire/changelog.py
    changelog/<batch>/_manifest-<epoch>                               Manifest
    chk-<n>/_metadata                                                 CheckpointMetadata
    chk-<n>/<uid>/<first>-<last>/<name>                               files of one checkpoint
    shared/<checksum>-<size>                                          files of several
    _endpoint                                                         checkpoint/endpoint_file.py
    spark/                                                            Spark's own checkpoint

Paths are relative to the root, with slashes; `resolve` makes them absolute. Uids and job
names are quoted, so that any text is one name. Key-group bounds are inclusive.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote as _percent
from urllib.parse import unquote as _unpercent

from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.wire.errors import InvalidRequestError

METADATA = "_metadata"
ENDPOINT = "_endpoint"
SHARED = "shared"
CHANGELOG = "changelog"
EPOCHS = "epochs"
REGISTRATIONS = "registrations"
SPARK = "spark"
_BESIDE = ".queryable-state"

_LONGEST_NAME = 200
_CHECKPOINT = re.compile(r"chk-([0-9]+)")
_MANIFEST = re.compile(r"_manifest-([0-9]+)")
_NUMBERS = re.compile(r"([0-9]+)-([0-9]+)")


class ChangelogPath(NamedTuple):
    """The fields of a changelog's path."""

    batch_id: int
    operator_uid: str
    first_key_group: int
    last_key_group: int
    run_epoch: int
    task_attempt: int


def quote(name: str) -> str:
    """Quotes any text as the name of a file or folder; raises InvalidRequestError for a bad length.

    Letters, digits and `_-.~` stay. A leading dot or underscore is quoted, so that the name is
    not that of a hidden or reserved file.
    """
    quoted = _percent(name, safe="")
    if quoted[:1] in (".", "_"):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if not 0 < len(quoted) <= _LONGEST_NAME:
        raise InvalidRequestError(
            f"the name {name[:80]!r} takes {len(quoted)} characters as a folder's name; 1 to "
            f"{_LONGEST_NAME} are allowed: choose another one"
        )
    return quoted


def unquote(name: str) -> str:
    """The text of a name made by `quote`."""
    return _unpercent(name)


def resolve(root: str, path: str) -> str:
    """The absolute path of a file; a path into another root is absolute already."""
    return path if "://" in path else join(root, path)


def root_of(directory: str, job_name: str) -> str:
    """The state root of a job in the configured checkpoint directory."""
    return join(directory, quote(job_name))


def beside(checkpoint_location: str) -> str:
    """The default state root of a query: beside Spark's checkpoint location."""
    return checkpoint_location.rstrip("/") + _BESIDE


def spark_folders(root: str) -> list[str]:
    """Folders that may hold Spark's checkpoint of the job of a state root."""
    folders = [f"{root}/{SPARK}"]
    if root.endswith(_BESIDE):
        folders.append(root.removesuffix(_BESIDE))
    return folders


def registrations_file(epoch: int, sequence: int) -> str:
    """The registrations of an epoch; the greatest name is the newest."""
    return f"{REGISTRATIONS}/{epoch:08d}-{sequence:06d}"


def epoch_file(epoch: int) -> str:
    """The file whose creation takes an epoch."""
    return f"{EPOCHS}/{epoch:08d}"


def batch_folder(batch_id: int) -> str:
    """Folder of the changelogs of a batch."""
    return f"{CHANGELOG}/{batch_id}"


def changelog_file(path: ChangelogPath) -> str:
    """One subtask's changelog of a batch."""
    return (
        f"{batch_folder(path.batch_id)}/{quote(path.operator_uid)}/"
        f"{path.first_key_group}-{path.last_key_group}/{path.run_epoch}-{path.task_attempt}"
    )


def parse_changelog_file(path: str) -> ChangelogPath | None:
    """The fields of a changelog's path; None if it is not one."""
    parts = path.split("/")
    if len(parts) != 5 or parts[0] != CHANGELOG or not is_number(parts[1]):
        return None
    key_groups, token = _NUMBERS.fullmatch(parts[3]), _NUMBERS.fullmatch(parts[4])
    if key_groups is None or token is None:
        return None
    return ChangelogPath(
        int(parts[1]),
        unquote(parts[2]),
        int(key_groups[1]),
        int(key_groups[2]),
        int(token[1]),
        int(token[2]),
    )


def manifest_file(batch_id: int, epoch: int) -> str:
    """The manifest of a batch; the one of the highest epoch is valid."""
    return f"{batch_folder(batch_id)}/_manifest-{epoch:08d}"


def manifest_epoch(name: str) -> int | None:
    """The epoch in a manifest's file name; None if it is not one."""
    found = _MANIFEST.fullmatch(name)
    return None if found is None else int(found[1])


def checkpoint_folder(checkpoint_id: int) -> str:
    """Folder of one checkpoint."""
    return f"chk-{checkpoint_id}"


def checkpoint_id(name: str) -> int | None:
    """The id in a checkpoint's folder name; None if it is not one."""
    found = _CHECKPOINT.fullmatch(name)
    return None if found is None else int(found[1])


def metadata_file(folder: str) -> str:
    """The metadata of the checkpoint in a folder; of a savepoint for an empty folder."""
    return f"{folder}/{METADATA}" if folder else METADATA


def range_folder(folder: str, operator_uid: str, first_key_group: int, last_key_group: int) -> str:
    """Folder of one subtask's own files in a checkpoint's folder (empty for a savepoint)."""
    below = f"{quote(operator_uid)}/{first_key_group}-{last_key_group}"
    return f"{folder}/{below}" if folder else below


def shared_file(checksum: bytes, size_bytes: int) -> str:
    """A file that several checkpoints may share, named by its content."""
    return f"{SHARED}/{checksum.hex()}-{size_bytes}"


def savepoint_name(job_id: bytes, random: bytes) -> str:
    """Name of a savepoint's folder: the first 3 bytes of the job's id and 6 random ones."""
    return f"savepoint-{job_id[:3].hex()}-{random[:6].hex()}"


def is_number(text: str) -> bool:
    """True if a name consists of decimal digits."""
    return text.isascii() and text.isdigit()
