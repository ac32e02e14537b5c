"""Catalog of the query behind a Spark checkpoint, in place of the coordinator's."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.finding import WARNING, finding
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
from queryable_state.wire.errors import CorruptDataError, UnknownJobError, UnknownStateError
from queryable_state.wire.located_state import LocatedState

if TYPE_CHECKING:
    from queryable_state.server.native_state.server.follower import Follower
    from queryable_state.server.native_state.server.owners import Owners
    from queryable_state.server.native_state.server.query_states import OperatorStates
    from queryable_state.server.native_state.server.served_query import ServedQuery


class NativeCatalog:
    """The one job of a native server and its states, with the owners of its partitions."""

    def __init__(
        self, served: ServedQuery, name: str, owners: Owners, follower: Follower | None
    ) -> None:
        """`follower`: None if the server stays at its batch."""
        self.address = ""
        """HOST:PORT of the server; set before it serves."""
        self.frames = registration_pb2.FrameEndpoint()
        """The frame port of the server; set before it serves."""
        self._served = served
        self._name = name
        self._owners = owners
        self._follower = follower
        self._started_ms = _now_ms()

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """Finds a state by job (id or name; empty: this one) and queryable name."""
        self._check_job(request.job)
        states = self._served.states.registrations
        registration = states.get(request.state_name)
        if registration is None:
            if request.state_name in self._served.states.left_out:
                raise self._served.states.left_out[request.state_name].copy()
            names = sorted(states)
            raise UnknownStateError(
                f"no queryable state {request.state_name!r} in {self._served.uri}; "
                f"{'it has ' + ', '.join(names) if names else 'its query keeps no state'}"
                + "".join(f"; {each.message}" for each in self._served.states.refusals),
                candidates=names,
            )
        return LocatedState.of(
            registration_pb2.StateLocation(
                registration=registration,
                placement_version=self._served.placement_version,
                owners=self._owners.ranges(registration.max_parallelism),
            )
        )

    async def locate_state(
        self, request: query_pb2.LocateStateRequest
    ) -> query_pb2.LocateStateResponse:
        """As `locate`, in the message of a coordinator; a `LocationTable` asks it."""
        return query_pb2.LocateStateResponse(location=(await self.locate(request)).location)

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        """The registration of a state by its id."""
        for state in self._served.states.registrations.values():
            if state.state_id == state_id:
                return state
        self._served.check_state(state_id)
        raise UnknownStateError(f"no queryable state has the id {state_id}: locate it by its name")

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """Lists the served query, as the only job."""
        return query_pb2.ListJobsResponse(jobs=[self._info()])

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """Lists the states of the served query, by name."""
        self._check_job(request.job)
        states = self._served.states.registrations
        return query_pb2.ListStatesResponse(states=[states[name] for name in sorted(states)])

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """Describes the one job as of the batch that is served."""
        self._check_job(request.job)
        facts, follower = self._served.facts, self._follower
        found = [] if follower is None or follower.finding is None else [follower.finding]
        found += [
            finding(
                "STATE_UNREADABLE",
                WARNING,
                0,
                f"Some state of the query is not served: {refusal}",
                "Put the named file back, or use the query's other states."
                if isinstance(refusal, CorruptDataError)
                else "Use a newer version of this package, or the query's other states.",
            )
            for refusal in self._served.states.refusals
        ]
        return status_pb2.JobDescription(
            info=self._info(),
            findings=found,
            watermark=status_pb2.Watermark(watermark_ms=facts.watermark_ms),
            last_batch=status_pb2.BatchTimes(
                batch_id=facts.batch,
                ended_at_ms=facts.commit_time_ms,
                lag_ms=0 if follower is None else follower.lag_ms,
                running_batch_id=-1,
            ),
            operators=[
                status_pb2.OperatorStatus(
                    uid=operator.uid,
                    name=next((each.operator_name for each in operator.registrations.values()), ""),
                    depth=depth,
                    states=sorted(each.queryable_name for each in operator.registrations.values()),
                    parallelism=operator.partitions,
                    max_parallelism=operator.partitions,
                    owners=self._key_group_owners(operator),
                )
                for depth, operator in enumerate(self._served.states.operators)
            ],
            restores=[
                status_pb2.RestoreProgress(
                    operator_uid=each.operator.uid,
                    first_key_group=each.index,
                    last_key_group=each.index,
                    server_id=self._owners.server_id,
                )
                for each in self._served.partitions
                if each.loading is not None
            ],
            as_of_ms=_now_ms(),
        )

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """Lists this server, and those with which it shares the partitions."""
        now_ms = _now_ms()
        own = status_pb2.ServerStatus(
            server_id=self._owners.server_id,
            host=self.address.rpartition(":")[0],
            query_address=self.address,
            frames=self.frames,
            pid=os.getpid(),
            lease=status_pb2.ServerStatus.HELD,
            registered_at_ms=self._started_ms,
            renewed_at_ms=now_ms,
            key_groups=len({each.index for each in self._served.partitions}),
        )
        return status_pb2.ListServersResponse(
            servers=[own, *self._owners.others()], as_of_ms=now_ms
        )

    def _info(self) -> registration_pb2.JobInfo:
        served, follower = self._served, self._follower
        problem = "" if served.refusal is None else served.refusal.message
        health = registration_pb2.JobInfo.FAILING if problem else registration_pb2.JobInfo.ENDED
        status = registration_pb2.FINISHED
        if follower is not None and not problem:
            # Spark says nowhere in its checkpoint whether the query runs.
            status = registration_pb2.RUNNING
            health = registration_pb2.JobInfo.HEALTHY
            if follower.finding is not None:
                health = registration_pb2.JobInfo.ATTENTION
                problem = follower.finding.message
        if not problem and served.states.refusals:
            problem = f"Some state of the query is not served: {served.states.refusals[0]}"
            if follower is not None:
                health = registration_pb2.JobInfo.ATTENTION
        return registration_pb2.JobInfo(
            job_id=served.query_id,
            job_id_hex=served.query_id.hex(),
            name=self._name,
            status=status,
            committed_batch=served.facts.batch,
            states=sorted(served.states.registrations),
            health=health,
            problem=problem,
        )

    def _key_group_owners(self, operator: OperatorStates) -> list[status_pb2.KeyGroupOwner]:
        loaded = {
            each.index
            for each in self._served.partitions
            if each.operator is operator and each.subtask is not None
        }
        return [
            status_pb2.KeyGroupOwner(
                first_key_group=each.first_key_group,
                last_key_group=each.last_key_group,
                server_id=each.server_id,
                open=each.server_id != self._owners.server_id
                or loaded.issuperset(range(each.first_key_group, each.last_key_group + 1)),
            )
            for each in self._owners.ranges(operator.partitions)
        ]

    def _check_job(self, text: str) -> None:
        job_id, name = self._served.query_id.hex(), self._name
        if text and text != name and text.replace("-", "").lower() != job_id:
            label = f"{name} ({job_id})"
            raise UnknownJobError(
                f"this server has no job {text!r}: {self._served.uri} is of {label}",
                candidates=[label],
            )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
