import type { SemaphoreClient } from '../../src/client';
import { Operator } from '../../src/operator';

const operators = new WeakMap<SemaphoreClient, Operator>();

/** The operator of the resource of this semaphore, on its client and with its capacity or slots. Always the same operator. */
export function operatorOf(semaphore: SemaphoreClient): Operator {
  const { client } = semaphore.context.server;
  const { compactSlots, taskQueue } = semaphore.semaphore;
  const slots = typeof compactSlots === 'number' ? { capacity: compactSlots } : { slots: compactSlots };
  const operator = operators.get(semaphore) ?? new Operator(client, semaphore.resource, { ...slots, taskQueue });
  operators.set(semaphore, operator);
  return operator;
}
