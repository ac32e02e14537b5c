"""Listing 7-14: a dashboard that queries the state of a running job.

The dashboard asks for the maximum temperature of all sensors at once, and prints a line of them in
each round. The job is that of listing 7-13, which prints its id and the address of its proxy.

    python examples/book/listing_7_14_dashboard.py JOB_ID --port 9069
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from queryable_state.client import QueryableStateClient, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Sequence


async def maximum_temperature(client: QueryableStateClient, job_id: str, sensor: str) -> str:
    """The maximum temperature of a sensor; a dash if the job has not read the sensor yet."""
    try:
        state = await client.get_kv_state(job_id, "maxTemperature", sensor)
    except UnknownKeyOrNamespaceError:
        return "-"
    _, temperature = state.value()
    return f"{temperature:.3f}"


async def show(options: argparse.Namespace) -> None:
    """Prints a line of maxima per round."""
    sensors = [f"sensor_{number}" for number in range(1, options.sensors + 1)]
    print("\t| ".join(sensors))
    async with QueryableStateClient(options.host, options.port) as client:
        number = 0
        while True:
            queries = [maximum_temperature(client, options.job_id, sensor) for sensor in sensors]
            print("\t| ".join(await asyncio.gather(*queries)), flush=True)
            number += 1
            if number == options.rounds:
                return
            await asyncio.sleep(options.refresh_s)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job_id", help="id or name of the job")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9069, help="port of a proxy")
    parser.add_argument("--sensors", type=int, default=5)
    parser.add_argument("--refresh-s", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=0, help="lines to print; 0: until Ctrl-C")
    asyncio.run(show(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
