"""Connections of a caller to servers, with TLS or without."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

import grpc
import grpc.aio

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.security.certificates import loaded, presenting, trusting
from queryable_state.wire.security.reloaded import Reloaded
from queryable_state.wire.security.tls import Tls

if TYPE_CHECKING:
    from queryable_state.wire.calls.channel_options import ChannelOptions
    from queryable_state.wire.security.certificates import PemMaterial

_LOOK_S = 1.0
_SETTING = "Tls({0}=...) (--tls-{0})"


class _Client(NamedTuple):
    credentials: grpc.ChannelCredentials
    context: ssl.SSLContext


class Connector:
    """Opens gRPC channels, and gives the `ssl` context of frame connections.

    With TLS it reads the files again when they change: `generation` then rises, and callers open
    new channels, because the credentials of a channel are fixed. Thread-safe; a forked process
    makes its own.
    """

    def __init__(
        self, tls: Tls | None = None, *, setting: str = _SETTING, look_s: float = _LOOK_S
    ) -> None:
        """`tls`: None connects in clear text. `setting`: format of the names of its settings.
        `look_s`: least seconds between two looks at the files.

        Raises `InvalidRequestError` if a file is missing or cannot be used.
        """
        self.tls = tls
        self._client: Reloaded[_Client] | None = None
        if tls is not None:
            self._files = tls.files(setting)
            self._client = Reloaded(self._files.paths, self._load, look_s=look_s)

    @property
    def generation(self) -> int:
        """Rises when the files have changed: open new channels."""
        if self._client is None:
            return 0
        self._client.get()
        return self._client.generation

    def channel(self, address: str, options: ChannelOptions) -> grpc.aio.Channel:
        """A channel of the running event loop to HOST:PORT."""
        if self._client is None:
            return grpc.aio.insecure_channel(address, options=options)
        return grpc.aio.secure_channel(
            address, self._client.get().credentials, options=self._options(options)
        )

    def blocking_channel(self, address: str, options: ChannelOptions) -> grpc.Channel:
        """A channel for blocking calls to HOST:PORT."""
        if self._client is None:
            return grpc.insecure_channel(address, options=options)
        return grpc.secure_channel(
            address, self._client.get().credentials, options=self._options(options)
        )

    def context(self) -> ssl.SSLContext | None:
        """The context of the next frame connection; None: clear text."""
        return None if self._client is None else self._client.get().context

    def server_name(self, host: str) -> str | None:
        """The name that the certificate of the server at a host must have; None: clear text."""
        return None if self.tls is None else self.tls.server_name or host

    def probing_context(self) -> ssl.SSLContext | None:
        """A context of its own for one probe of a gRPC port; None: clear text."""
        if self.tls is None:
            return None
        context = self._context(loaded(self._files))
        context.set_alpn_protocols(["h2"])
        return context

    def _load(self) -> _Client:
        material = loaded(self._files)
        context = self._context(material)
        ca = material.ca or _system_ca(context)
        return _Client(
            grpc.ssl_channel_credentials(
                ca or None, material.key or None, material.certificate or None
            ),
            context,
        )

    def _context(self, material: PemMaterial) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if material.ca:
            trusting(context, material.ca, self._files)
        else:
            context.load_default_certs()
        if material.certificate:
            presenting(context, self._files)
        return context

    def _options(self, options: ChannelOptions) -> list[tuple[str, int | str]]:
        assert self.tls is not None
        named = self.tls.server_name
        return [*options, *([("grpc.ssl_target_name_override", named)] if named else ())]


CLEAR_TEXT = Connector()
"""Connects without TLS."""


def connector_of(tls: Tls | bool) -> Connector:
    """The connector of a client; True: TLS with the authorities of the system.

    Raises `InvalidRequestError` if a file is missing or cannot be used.
    """
    if isinstance(tls, bool):
        return Connector(Tls()) if tls else CLEAR_TEXT
    if not isinstance(tls, Tls):
        raise InvalidRequestError(f"tls is {tls!r}: give True, False or Tls(...)")
    return Connector(tls)


def _system_ca(context: ssl.SSLContext) -> bytes:
    """The authorities of the system in PEM; empty: those that come with gRPC."""
    return "".join(
        ssl.DER_cert_to_PEM_cert(each) for each in context.get_ca_certs(binary_form=True)
    ).encode()
