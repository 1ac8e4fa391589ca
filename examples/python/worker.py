"""A Workflow that holds a permit, and the worker that runs it.

    python worker.py <task queue>

Reads TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, and Temporal's configuration file.
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

from permits import Permit, Pool, Semaphore


@dataclass
class HolderInput:
    pool: Pool
    hold_ms: int


@dataclass
class Held:
    slot: str
    run_id: str


@workflow.defn
class PermitHolder:
    @workflow.run
    async def run(self, holder: HolderInput) -> Held:
        async def work(permit: Permit) -> Held:
            # Replace this by an activity that gets resource, slot and `run_id`: its fencing token.
            await workflow.sleep(timedelta(milliseconds=holder.hold_ms))
            return Held(permit.slot, permit.run_id)

        held = await Semaphore(holder.pool).with_permit(work)
        # A turn may have come too late; its handler is passing it on.
        await workflow.wait_condition(workflow.all_handlers_finished)
        return held


async def main(task_queue: str) -> None:
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "localhost:7233")
    client = await Client.connect(**config)
    print("ready", flush=True)
    await Worker(client, task_queue=task_queue, workflows=[PermitHolder]).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
