"""Permits of temporal-semaphore for Python Workflows, written from docs/protocol.md.

No Python code grants a permit: the server does, by never running two Workflows of
one ID. A TypeScript worker runs the permit and queue Workflows on `Pool.task_queue`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowHandle, ParentClosePolicy

T = TypeVar("T")

FAST_ATTEMPTS = 3
ENQUEUE_ATTEMPTS = 5
MAX_HOLD = timedelta(days=1)
MAX_CAPACITY = 1000

# Without it, a child inherits its parent's priority, and others wait for its tasks.
PRIORITY = Priority(priority_key=1, fairness_key="permits", fairness_weight=1)

# After this silence a parked waiter tries a slot itself; each next silence is longer.
FIRST_SILENCE = timedelta(seconds=30)
LONGEST_SILENCE = timedelta(minutes=10)
QUEUE_FULL_SILENCE = timedelta(seconds=1)


@dataclass
class Pool:
    """Everyone who uses a resource must agree on its capacity."""

    resource: str
    capacity: int
    task_queue: str
    lease_ms: int = 600_000

    @property
    def slots(self) -> list[str]:
        return [str(slot) for slot in range(self.capacity)]

    def permit_id(self, slot: str) -> str:
        return f"permit:{self.resource}:{slot}"

    @property
    def queue_id(self) -> str:
        return f"permit-queue:{self.resource}"

    def may_claim(self, turn: dict[str, Any]) -> bool:
        """Checks that the turn names our queue, and a slot of ours or an added one."""
        added = turn.get("capacity")
        most = min(added, MAX_CAPACITY) if isinstance(added, int) else 0
        slots = [str(slot) for slot in range(max(self.capacity, most))]
        return turn.get("slot") in slots and turn.get("queueId") == self.queue_id


@dataclass(frozen=True)
class Permit:
    """A held slot. Every signal is pinned to its run, so none hits the next holder."""

    slot: str
    run_id: str  # orders the fencing tokens of one slot
    child: ChildWorkflowHandle[Any, Any]

    async def renew(self) -> bool:
        return await tell(self.child.id, self.run_id, "renew")

    async def keep_renewed(self, every: timedelta) -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            if not await self.renew():
                return  # the permit has ended; its result says how

    async def release(self) -> None:
        """Returns when the slot is free, so that our own next claim finds it so."""
        await tell(self.child.id, self.run_id, "release")
        await asyncio.gather(self.child, return_exceptions=True)


class Semaphore:
    """Takes one permit at a time: it handles `permit-turn`, which has one handler."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.ticket_id: str | None = None
        self.turn: dict[str, Any] | None = None
        workflow.set_signal_handler("permit-turn", self._on_turn)

    async def with_permit(self, work: Callable[[Permit], Awaitable[T]]) -> T:
        """Runs `work` under a renewed permit; cancels it when the permit is lost."""
        permit = await self.acquire()
        body = asyncio.ensure_future(work(permit))
        lease = timedelta(milliseconds=self.pool.lease_ms)
        renewal = asyncio.create_task(permit.keep_renewed(lease / 3))
        try:
            first = asyncio.FIRST_COMPLETED
            await workflow.wait([body, permit.child], return_when=first)
            if permit.child.done():
                raise ApplicationError(
                    f"The permit of {permit.child.id}, run {permit.run_id} was lost.",
                    type="PermitLostError",
                    non_retryable=True,
                )
            return await body
        finally:
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)
            renewal.cancel()
            await to_the_end(permit.release())

    async def acquire(self) -> Permit:
        """Tries a few slots, then waits in the queue. No way out leaks a permit."""
        slots = self.pool.slots
        for slot in workflow.random().sample(slots, min(FAST_ATTEMPTS, len(slots))):
            if permit := await self._claim(slot):
                return permit
        info = workflow.info()
        ticket = {
            "id": str(workflow.uuid4()),
            "waiter": {"workflowId": info.workflow_id, "runId": info.run_id},
            "slots": self.pool.capacity,
            "sinceMs": int(workflow.now().timestamp() * 1000),
        }
        try:
            return await self._wait_in_line(ticket)
        finally:
            await to_the_end(self._leave())

    async def _wait_in_line(self, ticket: dict[str, Any]) -> Permit:
        self.ticket_id = ticket["id"]
        await to_the_end(self._enqueue(ticket))
        silence = FIRST_SILENCE
        while True:
            try:
                await workflow.wait_condition(
                    lambda: self.turn is not None, timeout=silence
                )
            except TimeoutError:
                # The queue may be gone or stuck: line up anew, and try a slot.
                await to_the_end(self._enqueue(ticket))
                if permit := await self._claim(
                    workflow.random().choice(self.pool.slots)
                ):
                    return permit
                silence = min(silence * 6, LONGEST_SILENCE)
                continue
            turn, self.turn = self.turn, None
            if not turn or turn.get("slot") is None:  # the queue is full
                silence = QUEUE_FULL_SILENCE
                continue
            if not self.pool.may_claim(turn):  # anybody may have sent it
                continue
            if permit := await self._claim(turn["slot"], watched_by=turn["queueId"]):
                self.ticket_id = None  # served: the queue hears of the permit's end
                return permit
            await to_the_end(self._missed(ticket, turn["slot"]))
            silence = FIRST_SILENCE

    async def _missed(self, ticket: dict[str, Any], slot: str) -> None:
        """Keeps the place; lines up anew if the queue is gone."""
        missed = {"ticket": ticket, "slot": slot}
        if not await tell(self.pool.queue_id, None, "missed", missed):
            await self._enqueue(ticket)

    async def _enqueue(self, ticket: dict[str, Any]) -> None:
        """Lines up; starts the queue if there is none, unless somebody else just did."""
        for _ in range(ENQUEUE_ATTEMPTS):
            if await tell(self.pool.queue_id, None, "enqueue", ticket):
                return
            try:
                await workflow.start_child_workflow(
                    "waitQueueWorkflow",
                    {"tickets": [ticket]},
                    id=self.pool.queue_id,
                    task_queue=self.pool.task_queue,
                    parent_close_policy=ParentClosePolicy.ABANDON,
                    priority=PRIORITY,
                )
                return
            except WorkflowAlreadyStartedError:
                continue

    async def _leave(self) -> None:
        """Gives up the place, and with it a turn that came meanwhile."""
        ticket_id, self.ticket_id = self.ticket_id, None
        turn, self.turn = self.turn, None
        if turn or ticket_id:
            await self._decline(turn or {"ticketId": ticket_id})

    async def _on_turn(self, turn: dict[str, Any]) -> None:
        if turn.get("ticketId") == self.ticket_id:
            self.turn = turn
        else:
            await self._decline(turn)

    async def _decline(self, turn: dict[str, Any]) -> None:
        declined = {key: turn[key] for key in ("ticketId", "slot") if turn.get(key)}
        await tell(self.pool.queue_id, None, "declined", declined)

    async def _claim(self, slot: str, watched_by: str | None = None) -> Permit | None:
        """The atomic step. A start cannot be recalled: this awaits its end, and gives
        the permit back if the caller was cancelled meanwhile."""
        start = asyncio.create_task(self._start_permit(slot, watched_by))
        try:
            return await asyncio.shield(start)
        except asyncio.CancelledError:
            if permit := await start:
                await permit.release()
            raise

    async def _start_permit(self, slot: str, watched_by: str | None) -> Permit | None:
        info = workflow.info()
        memo = {
            "leaseMs": self.pool.lease_ms,
            "holder": {
                "workflowId": info.workflow_id,
                "runId": info.run_id,
                "workflowType": info.workflow_type,
            },
        }
        try:
            child: ChildWorkflowHandle[Any, Any] = await workflow.start_child_workflow(
                "permitSlotWorkflow",
                {**memo, "watchedBy": watched_by} if watched_by else memo,
                id=self.pool.permit_id(slot),
                task_queue=self.pool.task_queue,
                memo=memo,
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                execution_timeout=MAX_HOLD,
                priority=PRIORITY,
            )
        except WorkflowAlreadyStartedError:
            return None  # the one and only "busy"
        return Permit(slot, child.first_execution_run_id or "", child)


async def tell(
    workflow_id: str, run_id: str | None, signal: str, *payload: dict[str, Any]
) -> bool:
    """Signals, and awaits the server's answer. `False`: no such Workflow runs."""
    target = workflow.get_external_workflow_handle(workflow_id, run_id=run_id)
    try:
        await target.signal(signal, args=payload)
        return True
    except ApplicationError as error:
        if error.type != "ExternalWorkflowExecutionNotFound":
            workflow.logger.warning("%s refused %s: %s", workflow_id, signal, error)
        return False


async def to_the_end(steps: Coroutine[Any, Any, T]) -> T:
    """Awaits steps that must not stop midway. A cancellation waits for them."""
    task = asyncio.create_task(steps)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
