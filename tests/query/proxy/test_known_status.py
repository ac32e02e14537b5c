"""Status of jobs and servers while the driver does not answer."""

from __future__ import annotations

import pytest

from queryable_state.server.query.proxy.known_status import KnownStatus
from queryable_state.server.query.router import DriverAwayError
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2

SENSORS = registration_pb2.JobInfo(
    job_id=bytes(16),
    name="sensors",
    status=registration_pb2.RUNNING,
    health=registration_pb2.JobInfo.HEALTHY,
)


class Driver:
    """A driver that can go away."""

    def __init__(self) -> None:
        self.is_away = False

    def known(self) -> KnownStatus:
        return KnownStatus(
            list_jobs=self.list_jobs,
            describe_job=self.describe_job,
            list_servers=self.list_servers,
            driver_address=lambda: "driver:6123",
        )

    async def list_jobs(self) -> query_pb2.ListJobsResponse:
        self._check()
        return query_pb2.ListJobsResponse(jobs=[SENSORS])

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        self._check()
        history = [status_pb2.HistoryPoint(batch_id=1)] if request.with_history else []
        return status_pb2.JobDescription(
            info=SENSORS, history=history, findings=[status_pb2.Finding(code="WATERMARK_STUCK")]
        )

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        self._check()
        return status_pb2.ListServersResponse(servers=[status_pb2.ServerStatus(server_id="one")])

    def _check(self) -> None:
        if self.is_away:
            raise DriverAwayError("the job's driver does not answer")


def asked(job: str = "sensors", *, with_history: bool = False) -> status_pb2.DescribeJobRequest:
    return status_pb2.DescribeJobRequest(job=job, with_history=with_history)


@pytest.mark.parametrize("name", ["sensors", bytes(16).hex(), ""])
async def test_a_job_is_described_as_it_was_known_last(name: str) -> None:
    driver = Driver()
    status = driver.known()
    before = await status.describe_job(asked(with_history=True))
    assert (before.age_ms, before.info.health) == (0, registration_pb2.JobInfo.HEALTHY)
    await status.describe_job(asked())
    driver.is_away = True
    stale = await status.describe_job(asked(name, with_history=True))
    assert stale.age_ms > 0
    assert stale.info.health == registration_pb2.JobInfo.UNREACHABLE
    assert [each.code for each in stale.findings] == ["DRIVER_UNREACHABLE", "WATERMARK_STUCK"]
    assert stale.info.problem == stale.findings[0].message
    assert "driver:6123" in stale.info.problem
    assert [each.batch_id for each in stale.history] == [1]
    assert not (await status.describe_job(asked(name))).history


async def test_jobs_and_servers_are_listed_as_they_were_known_last() -> None:
    driver = Driver()
    status = driver.known()
    await status.list_jobs(query_pb2.ListJobsRequest())
    await status.list_servers(status_pb2.ListServersRequest())
    driver.is_away = True
    [job] = (await status.list_jobs(query_pb2.ListJobsRequest(allow_stale=True))).jobs
    assert job.health == registration_pb2.JobInfo.UNREACHABLE
    assert job.problem
    servers = await status.list_servers(status_pb2.ListServersRequest())
    assert servers.age_ms > 0
    assert [each.server_id for each in servers.servers] == ["one"]


async def test_without_earlier_answers_the_error_says_that_the_driver_is_away() -> None:
    driver = Driver()
    driver.is_away = True
    status = driver.known()
    with pytest.raises(DriverAwayError):
        await status.describe_job(asked())
    with pytest.raises(DriverAwayError):
        await status.list_servers(status_pb2.ListServersRequest())


async def test_jobs_are_not_listed_from_memory_unless_the_caller_allows_it() -> None:
    driver = Driver()
    status = driver.known()
    await status.list_jobs(query_pb2.ListJobsRequest())
    driver.is_away = True
    with pytest.raises(DriverAwayError):
        await status.list_jobs(query_pb2.ListJobsRequest())


async def test_what_nobody_asked_about_is_known_all_the_same() -> None:
    driver = Driver()
    status = driver.known()
    await status.refresh(await driver.list_jobs())
    driver.is_away = True
    stale = await status.describe_job(asked())
    assert [each.code for each in stale.findings] == ["DRIVER_UNREACHABLE", "WATERMARK_STUCK"]
    [job] = (await status.list_jobs(query_pb2.ListJobsRequest(allow_stale=True))).jobs
    assert "driver:6123" in job.problem
    assert (await status.list_servers(status_pb2.ListServersRequest())).servers
