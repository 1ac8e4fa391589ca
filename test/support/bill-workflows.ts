// Workflows whose code has a bug, until a deploy mends it.
import { setWorkflowOptions, sleep } from '@temporalio/workflow';
import { Semaphore, withPermits } from '../../src/workflow';
import { finishes } from './finishing';
import type { HolderInput } from './workflows';

/** A deploy puts another text here: see `mended`. */
const DEPLOYED: string = 'the code with the bug';

async function total(): Promise<string> {
  await sleep(50);
  if (!DEPLOYED.startsWith('mended')) (undefined as unknown as { total: number }).total.toFixed();
  await sleep(50);
  return 'billed 7';
}

export type BillUnder = 'permit' | 'set' | 'key' | 'outliving' | 'two';

export async function bill(under: BillUnder, { resource, semaphore }: HolderInput): Promise<string> {
  const whole = new Semaphore(resource, semaphore);
  const other = new Semaphore(`${resource}-other`, { ...semaphore, perKey: undefined });
  switch (under) {
    case 'permit':
      return await whole.withPermit(total);
    case 'key':
      return await whole.withPermit(total, { key: 'acme' });
    case 'outliving':
      return await whole.withPermit(total, { outlivesRun: true });
    case 'set':
      return await withPermits([whole, other], total);
    case 'two':
      return await whole.withPermit(() => other.withPermit(total));
  }
}

/** Catches the bug, and goes on without a permit. */
export async function catcher({ resource, semaphore }: HolderInput): Promise<string> {
  const finished = finishes();
  const caught = await new Semaphore(resource, semaphore).withPermit(total).catch((error: Error) => error.name);
  await finished();
  return caught;
}

/** The user wants this bug to fail the Workflow. */
export async function failing({ resource, semaphore }: HolderInput): Promise<string> {
  return await new Semaphore(resource, semaphore).withPermit(total);
}
setWorkflowOptions({ failureExceptionTypes: [TypeError] }, failing);

/** A limited Workflow. */
export async function limitedBill(_: HolderInput): Promise<string> {
  return await total();
}
