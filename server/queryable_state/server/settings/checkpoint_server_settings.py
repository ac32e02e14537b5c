"""Settings of a checkpoint server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.backends import BACKENDS
from queryable_state.server.config.limits import Limits
from queryable_state.server.config.log_settings import LogLevel
from queryable_state.server.config.setting import setting
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import PublicListenSettings
from queryable_state.server.serving.serving_settings import ServingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class CheckpointServerSettings(PublicListenSettings, ServingSettings, LogLevel):
    """Settings of a process that serves one checkpoint or savepoint."""

    checkpoint: str
    """URI of a checkpoint's or savepoint's folder (a path, file:///..., s3://...); of a state root
    for its newest intact checkpoint."""

    storage_options: Mapping[str, Any] = setting(default_factory=dict, secret=True)
    """Options of the file system of fsspec, as a JSON object: `{"endpoint_url":
    "http://localhost:9000"}` for your own S3 server; other keys and regions come from where the AWS
    tools take them."""

    backend: str = setting("", choices=("", *BACKENDS))
    """Backend of the loaded state: `heap` or `rocksdb`; empty: that of the job."""

    directory: str = ""
    """Folder in which the loaded state gets a folder of its own; empty: the system's temporary
    folder."""

    limits: Limits = field(default_factory=Limits)

    tls: TlsSettings = field(default_factory=TlsSettings)
    access: AccessSettings = field(default_factory=AccessSettings)

    transfer_threads: int = setting(4, least=1, most=256)
    """Threads that download files, and threads that fill stores."""
