"""A program outside Workflows that works under a permit: one start, renewals, a release.

    python client.py <resource> <capacity> <task queue of the permits> [hold_ms] [lease_ms]

It prints one JSON line about its hold: from the resolved start to the release call, by
the wall clock. Reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, Temporal's configuration file.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from permits import MAX_HOLD, PRIORITY, Pool

Permit = WorkflowHandle[object, object]


@asynccontextmanager
async def permit(client: Client, pool: Pool) -> AsyncIterator[Permit]:
    """Holds a permit for the block. Raises TimeoutError inside it when the permit is
    lost. When renewals fail, that is before others hold it. When an operator revokes it,
    it is at the next renewal, and others may hold it by then.
    """
    held, asked_at = await acquire(client, pool)
    lease_s = pool.lease_ms / 1000
    try:
        # The lease counts from when we asked, which is before the server granted.
        async with asyncio.timeout_at(asked_at + lease_s) as deadline:
            renewal = asyncio.create_task(keep_renewed(held, lease_s, deadline))
            try:
                yield held
            finally:
                renewal.cancel()
    finally:
        await release(held)


async def acquire(client: Client, pool: Pool) -> tuple[Permit, float]:
    """Tries every slot, then backs off and tries again. (A client that must keep its
    place among parked waiters lets a Workflow acquire for it.)"""
    attempt = 0
    while True:
        for slot in random.sample(pool.slots, len(pool.slots)):
            asked_at = asyncio.get_running_loop().time()
            if held := await claim(client, pool, slot):
                return held, asked_at
        await asyncio.sleep(min(2, 0.1 * 2**attempt) * random.uniform(0.5, 1))
        attempt += 1


async def claim(client: Client, pool: Pool, slot: str) -> Permit | None:
    """The atomic step. `None`: the slot is held."""
    memo = {"leaseMs": pool.lease_ms, "holder": {"identity": client.identity}}
    asked_at = time.monotonic()
    start = asyncio.create_task(
        client.start_workflow(
            "permitSlotWorkflow",
            memo,
            id=pool.permit_id(slot),
            task_queue=pool.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            execution_timeout=MAX_HOLD,
            memo=memo,
            priority=PRIORITY,
        )
    )
    try:
        held = pinned(client, await asyncio.shield(start))
    except WorkflowAlreadyStartedError:
        return None
    except asyncio.CancelledError:
        # Nobody can recall a start: the server may grant all the same.
        with suppress(WorkflowAlreadyStartedError):
            await release(pinned(client, await start))
        raise
    try:
        # The server may answer a start that was retried for long with a run that is over.
        late = time.monotonic() - asked_at > 1
        if late and (await held.describe()).close_time is not None:
            return None
    except BaseException:
        await release(held)
        raise
    return held


def pinned(client: Client, started: Permit) -> Permit:
    """The handle of a start names no run in its signals, so they could hit the next
    holder. This one names it."""
    run_id = started.first_execution_run_id
    return client.get_workflow_handle(started.id, run_id=run_id)


async def release(held: Permit) -> None:
    try:
        await held.signal("release")
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise  # not released: the slot is free when the lease ends


async def keep_renewed(held: Permit, lease_s: float, deadline: asyncio.Timeout) -> None:
    """Moves the deadline with every renewal that got through, counted from its call."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(lease_s / 3)
        sent_at = loop.time()
        try:
            await held.signal("renew", rpc_timeout=timedelta(seconds=lease_s / 3))
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                deadline.reschedule(loop.time())  # lost, or revoked: stop now
                return
        else:
            deadline.reschedule(sent_at + lease_s)


async def main(pool: Pool, hold_ms: int) -> None:
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "localhost:7233")
    client = await Client.connect(**config)
    async with permit(client, pool) as held:
        from_ms = time.time() * 1000
        await asyncio.sleep(hold_ms / 1000)  # the work; `held.run_id` fences it
        to_ms = time.time() * 1000
    hold = {"id": held.id, "runId": held.run_id, "fromMs": from_ms, "toMs": to_ms}
    print(json.dumps(hold), flush=True)


if __name__ == "__main__":
    resource, capacity, task_queue, *rest = sys.argv[1:]
    hold_ms, lease_ms = [*map(int, rest), *(1_000, 30_000)[len(rest) :]]
    asyncio.run(main(Pool(resource, int(capacity), task_queue, lease_ms), hold_ms))
    # The interpreter's own exit may crash right after a call has ended:
    # https://github.com/temporalio/sdk-python/issues/300
    os._exit(0)
