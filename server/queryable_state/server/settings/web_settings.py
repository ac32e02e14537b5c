"""Settings of the web port: REST and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from queryable_state.server.config.setting import setting
from queryable_state.server.config.settings_group import SettingsGroup
from queryable_state.server.serving.listen_settings import ports_setting

WebMode = Literal["auto", "on", "off"]
WEB_MODES: tuple[WebMode, ...] = ("auto", "on", "off")

WEB_PORTS = "8081-8181"


def origins_of(text: str) -> frozenset[str]:
    """The origins of a list with commas; raises `ValueError` for what is no origin."""
    origins = frozenset(filter(None, (each.strip() for each in text.split(","))))
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
            raise ValueError(
                f"{origin!r} is not an origin: write scheme, host and port without a path, as in "
                "https://dashboards.example:3000"
            )
    return origins


def _check_origins(text: str) -> None:
    origins_of(text)


@dataclass(frozen=True, kw_only=True)
class WebSettings(SettingsGroup):
    """The web port of a process: REST, watches as server-sent events, and the page."""

    web: WebMode = setting("auto", choices=WEB_MODES)
    """`on`: the process serves REST and the page; `off`: it does not; `auto`: a stand-alone proxy
    does, a driver if `spark.ui.enabled`. A driver starts a process of its own for it."""

    web_ports: str = ports_setting(WEB_PORTS, flags=("--web-port",))
    """Port, range or list of the web port; a 0 in it: any free port."""

    web_allowed_origins: str = setting("", check=_check_origins)
    """Origins (`https://dashboards.example`), with commas between, whose pages may use the REST
    paths in a browser (CORS); empty: only the page itself."""

    @property
    def allowed_origins(self) -> frozenset[str]:
        """The origins of `web_allowed_origins`."""
        return origins_of(self.web_allowed_origins)
