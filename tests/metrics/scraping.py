"""Scrapes of the metrics ports of tests."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping


def get(
    url: str, token: str = "", context: ssl.SSLContext | None = None
) -> tuple[int, str, Mapping[str, str]]:
    """Status, body and headers of a GET."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S, context=context) as response:
            return response.status, response.read().decode(), dict(response.headers)
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode(), dict(refusal.headers)


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


async def scraped(address: str) -> Scrape:
    """The metrics at HOST:PORT."""
    status, text, _ = await asyncio.to_thread(get, f"http://{address}/metrics")
    assert status == 200, text
    return Scrape(text)
