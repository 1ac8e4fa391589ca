import type { Client } from '@temporalio/client';
import type { SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';
import type { ResolvedSemaphore } from '../../src/shared/options';

const operators = new WeakMap<SemaphoreClient, Operator>();

/** The operator of the resource of this semaphore, on its client and with its capacity or slots. Always the same operator. */
export function operatorOf(semaphore: SemaphoreClient): Operator {
  const { server, semaphore: resolved } = semaphore as unknown as {
    server: { client: Client };
    semaphore: ResolvedSemaphore;
  };
  const { compactSlots, taskQueue } = resolved;
  const slots = typeof compactSlots === 'number' ? { capacity: compactSlots } : { slots: compactSlots };
  const operator = operators.get(semaphore) ?? new Operator(server.client, semaphore.resource, { ...slots, taskQueue });
  operators.set(semaphore, operator);
  return operator;
}
