"""Settings of a checkpoint server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import HOUR_MS, SettingsGroup, setting
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import PublicListenSettings
from queryable_state.server.settings.shared_settings import (
    BACKENDS,
    LogLevel,
    ServingSettings,
    WebSettings,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class SparkCheckpointSettings(SettingsGroup):
    """How the state of a Spark query that knows nothing of this package is served."""

    spark_checkpoint: str = ""
    """URI of the checkpoint location of a Structured Streaming query (a path, file:///...,
    s3://...), whose state Spark keeps itself, to serve instead of `checkpoint`."""

    follow: bool = False
    """True: each batch that the query commits is served within a fraction of a second; False: the
    newest batch at the start."""

    poll_interval_ms: int = setting(0, least=0, most=HOUR_MS)
    """Time between two looks for the next commit; 0: 20 ms on disks, 250 ms on object stores."""

    lazy: bool = False
    """True: a partition of the state is loaded when it is first asked for, by a query that waits
    for it; False: all are loaded at the start."""

    name: str = ""
    """Name of the query for clients; empty: that of the checkpoint's folder, or of the folder above
    one that is called `checkpoint`."""

    servers: tuple[str, ...] = ()
    """HOST:PORT of all servers that share the partitions of the query, this one included; each is
    started with the same list. Empty: this server has all partitions."""

    secret: str = setting("", secret=True, flags=None)
    """Secret with which `servers` sign their calls to each other, the same for all; needed if there
    are several and an access file. Empty: the one of `secret_file`."""

    secret_file: str = ""
    """File with the secret of `servers`; counts before `secret`."""

    stop_with_pid: int = setting(0, least=0, most=2**31 - 1)
    """The process, of this machine, with which the server ends; 0: none."""

    kept_batches: int = setting(16, least=0, most=10_000)
    """Batches before the newest one that queries can read (`at_version`), as far as their changes
    are there."""


@dataclass(frozen=True, kw_only=True)
class CheckpointServerSettings(
    SparkCheckpointSettings, PublicListenSettings, WebSettings, ServingSettings, LogLevel
):
    """Settings of a process that serves one checkpoint or savepoint."""

    checkpoint: str = ""
    """URI of a checkpoint's or savepoint's folder (a path, file:///..., s3://...); of a state root
    for its newest intact checkpoint. Either this or `spark_checkpoint` is given."""

    storage_options: Mapping[str, Any] = setting(default_factory=dict, secret=True)
    """Options of the file system of fsspec, as a JSON object: `{"endpoint_url":
    "http://localhost:9000"}` for your own S3 server; other keys and regions come from where the AWS
    tools take them."""

    backend: str = setting("", choices=("", *BACKENDS))
    """Backend of the loaded state: `heap` or `rocksdb`; empty: that of the job. Of a Spark query
    only for state of the HDFS-backed provider, default `heap`."""

    directory: str = ""
    """Folder in which the loaded state gets a folder of its own; empty: the system's temporary
    folder."""

    limits: Limits = field(default_factory=Limits)

    tls: TlsSettings = field(default_factory=TlsSettings)
    access: AccessSettings = field(default_factory=AccessSettings)

    transfer_threads: int = setting(4, least=1, most=256)
    """Threads that download files, and threads that fill stores. The changes of a Spark query on an
    object store are read by at least 32."""

    def check_relations(self) -> None:
        super().check_relations()
        if not self.checkpoint and not self.spark_checkpoint:
            raise InvalidRequestError(
                "neither checkpoint nor spark_checkpoint is set: give --checkpoint, set "
                "QUERYABLE_STATE_CHECKPOINT or write checkpoint into the file, for a checkpoint of "
                "this package; or the same with spark_checkpoint, for that of any streaming query"
            )
        self.require(
            not (self.checkpoint and self.spark_checkpoint),
            ("checkpoint", "spark_checkpoint"),
            "only one of them can be served: set one",
        )
        self.require(
            len(set(self.servers)) < 2
            or not self.access.authenticates
            or bool(self.secret or self.secret_file),
            ("servers",),
            "they have tokens but no shared secret, so none of them could ask another one for the "
            "keys of its partitions: give all of them the same secret, a random text in the file "
            "of secret_file (--secret-file) or in QUERYABLE_STATE_SECRET",
        )
