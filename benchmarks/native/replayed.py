"""A checkpoint on a disk, written once more onto an object store, batch by batch."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

_UPLOADS = 10
_STATE = re.compile(r"([0-9]+)(?:_[^.]+)?\.(?:changelog|zip)")


class ReplayedCheckpoint:
    """Uploads the files of a checkpoint up to a batch: its state first, its commit last."""

    def __init__(self, folder: str, url: str, bucket: str, name: str) -> None:
        self._folder = Path(folder)
        self._bucket, self._name = bucket, name
        self._client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        self._client.create_bucket(Bucket=bucket)
        self._left: dict[int, list[Path]] = {}
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                self._left.setdefault(self._batch_of(path), []).append(path)
        self.last = max(int(path.name) for path in self._folder.glob("commits/[0-9]*"))
        """The last batch that the query committed."""

    @property
    def uri(self) -> str:
        """The URI of the checkpoint on the object store."""
        return f"s3a://{self._bucket}/{self._name}"

    def commit(self, batch: int) -> None:
        """Uploads what is missing of a batch and of those before it."""
        for each in sorted(number for number in self._left if number <= batch):
            paths = self._left.pop(each)
            commits = [path for path in paths if path.parent.name == "commits"]
            with ThreadPoolExecutor(_UPLOADS) as threads:
                list(threads.map(self._upload, [path for path in paths if path not in commits]))
            for path in commits:
                self._upload(path)

    def _upload(self, path: Path) -> None:
        key = f"{self._name}/{path.relative_to(self._folder)}"
        self._client.put_object(Bucket=self._bucket, Key=key, Body=path.read_bytes())

    def _batch_of(self, path: Path) -> int:
        """The batch that wrote a file; -1: it was there before the first one."""
        if path.parent.name in ("commits", "offsets"):
            return int(path.name)
        match = _STATE.fullmatch(path.name)
        return int(match[1]) - 1 if match else -1
