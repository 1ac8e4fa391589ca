// What the bench's worker registers: the library, and what it is compared with.
import {
  type ChildWorkflowHandle,
  condition,
  continueAsNew,
  defineSignal,
  getExternalWorkflowHandle,
  proxyActivities,
  setHandler,
  sleep,
  startChild,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow';
import { Semaphore } from '../scripts/support/own-queue-semaphore';
import { type PermitAddress, permitId } from '../src/shared/permit-id';
import { RELEASE } from '../src/shared/protocol';
import { permitSummary, WORKFLOW_PRIORITY } from '../src/shared/request';
import { withPermits } from '../src/workflow';
import { permitSlotWorkflow } from '../src/workflows';

export * from '../src/workflows';

export interface ConsumerInput {
  resource: string;
  capacity: number;
  holdMs: number;
  /** Where permits run. @default the consumer's own */
  permitQueue?: string;
  fair?: boolean;
  leaseMs?: number;
  /** How long a polling consumer pauses. @default 1,000 */
  pollMs?: number;
}

const { hold } = proxyActivities<{ hold(holdMs: number): Promise<void> }>({ startToCloseTimeout: '1 hour' });

/** When a consumer held, on its Workflow's clock. */
export interface Held {
  fromMs: number;
  toMs: number;
}

/** A consumer that waits by parking. */
export async function parkingConsumer({ resource, capacity, holdMs, fair, ...rest }: ConsumerInput): Promise<Held> {
  const options = { capacity, taskQueue: rest.permitQueue, fair, lease: rest.leaseMs };
  const permit = await new Semaphore(resource, options).acquire();
  return await holdUnder(() => permit.release(), holdMs);
}

/** The same as this pattern is usually published: try every slot, sleep, try again. */
export async function pollingConsumer({ resource, capacity, holdMs, pollMs = 1_000 }: ConsumerInput): Promise<Held> {
  const semaphore = new Semaphore(resource, { capacity });
  let permit = await semaphore.tryAcquire();
  while (!permit) {
    await sleep(pollMs);
    permit = await semaphore.tryAcquire();
  }
  return await holdUnder(() => permit.release(), holdMs);
}

/** One permit of each resource. */
export async function setConsumer(resources: string[]): Promise<void> {
  await withPermits(
    resources.map((resource) => ({ of: new Semaphore(resource, { capacity: 1 }) })),
    async () => undefined,
  );
}

/** One try. @returns whether the slot was free */
export async function tryConsumer(resource: string): Promise<boolean> {
  const permit = await new Semaphore(resource, { capacity: 1 }).tryAcquire();
  await permit?.release();
  return permit !== undefined;
}

const lockRequest = defineSignal<[string]>('lock-request');
const lockGranted = defineSignal('lock-granted');
const lockRelease = defineSignal('lock-release');

/** One Workflow that grants by signal, in the order of the requests: as the mutex in Temporal's samples, with a capacity. */
export async function lockWorkflow(capacity: number, waiting: string[] = [], held = 0): Promise<void> {
  setHandler(lockRequest, (workflowId) => void waiting.push(workflowId));
  setHandler(lockRelease, () => void held--);
  for (;;) {
    await condition(() => waiting.length > 0 && held < capacity);
    const next = waiting.shift();
    held++;
    if (next) await getExternalWorkflowHandle(next).signal(lockGranted);
    if (workflowInfo().historyLength > 2_000) await continueAsNew<typeof lockWorkflow>(capacity, waiting, held);
  }
}

/** A consumer of the {@link lockWorkflow} whose Workflow ID is the resource. */
export async function lockConsumer({ resource, holdMs }: ConsumerInput): Promise<Held> {
  let granted = false;
  setHandler(lockGranted, () => {
    granted = true;
  });
  const lock = getExternalWorkflowHandle(resource);
  await lock.signal(lockRequest, workflowInfo().workflowId);
  await condition(() => granted);
  return await holdUnder(() => lock.signal(lockRelease), holdMs);
}

/** What a permit rests on, without a limit: a child is started, signalled, and ends. @returns the child's Workflow ID */
export async function bareConsumer(): Promise<string> {
  const child = await startBare();
  await endBare(child);
  return child.workflowId;
}

/** One caller takes an uncontended permit again and again. @returns milliseconds of each acquire, and of each release */
export async function acquireChain(resource: string, rounds: number) {
  const semaphore = new Semaphore(resource, { capacity: 1 });
  const acquireMs: number[] = [];
  const releaseMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const startedMs = Date.now();
    const permit = await semaphore.acquire();
    const heldMs = Date.now();
    await permit.release();
    acquireMs.push(heldMs - startedMs);
    releaseMs.push(Date.now() - heldMs);
  }
  return { acquireMs, releaseMs };
}

/**
 * The same by hand. `chainMs`: from the release signal over the child's end to the start of the next.
 * @param permitOf a slot: each child has the Workflow ID of its permit, and what operators read of a permit
 */
export async function bareChain(rounds: number, permitOf?: PermitAddress) {
  const startMs: number[] = [];
  const endMs: number[] = [];
  const chainMs: number[] = [];
  let releasedMs = Number.NaN;
  for (let round = 0; round < rounds; round++) {
    const startedMs = Date.now();
    const child = await startBare(permitOf);
    const heldMs = Date.now();
    startMs.push(heldMs - startedMs);
    if (round > 0) chainMs.push(heldMs - releasedMs);
    releasedMs = heldMs;
    await endBare(child);
    endMs.push(Date.now() - heldMs);
  }
  return { startMs, endMs, chainMs };
}

const release = defineSignal(RELEASE);

async function startBare(permitOf?: PermitAddress) {
  const { workflowId, runId } = workflowInfo();
  const input = { leaseMs: 30_000, holder: { workflowId, runId } };
  return await startChild(permitSlotWorkflow, {
    workflowId: permitOf ? permitId(permitOf) : `bare-${uuid4()}`,
    args: [input],
    ...(permitOf && { memo: input, staticSummary: permitSummary(workflowId, undefined), priority: WORKFLOW_PRIORITY }),
  });
}

async function endBare(child: ChildWorkflowHandle<typeof permitSlotWorkflow>): Promise<void> {
  await child.signal(release);
  await child.result();
}

/** What all do alike: only the waiting is compared. */
async function holdUnder(release: () => Promise<unknown>, holdMs: number): Promise<Held> {
  const fromMs = Date.now();
  try {
    if (holdMs > 0) await hold(holdMs);
    return { fromMs, toMs: Date.now() };
  } finally {
    await release();
  }
}
