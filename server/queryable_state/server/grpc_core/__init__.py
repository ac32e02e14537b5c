"""gRPC server for asyncio, directly on gRPC's core.

For a unary call, `grpc.aio` takes four turns of the loop, each with a switch between threads,
and two tasks: 200 us of CPU, where the core itself needs 30. Here a thread waits for the core and
passes a call to the loop once, when its request is complete, together with other such calls.

`grpc._cython.cygrpc`, the base of grpcio's own servers, is undocumented: only this folder
imports it.
"""

from queryable_state.server.grpc_core.server import GrpcServer

__all__ = ["GrpcServer"]
