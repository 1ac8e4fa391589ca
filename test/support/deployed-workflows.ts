// The Workflows of an application that is deployed again and again. The options of its semaphore stand in its code.
import { type Permit, Semaphore, type SemaphoreOptions, withPermits } from '../../src/workflow';
import { finishes, marked } from './finishing';

/** In its place, `deploys.ts` puts the resource and the options of a deploy. */
const DEPLOYED: unknown = 'DEPLOYED';

const { resource, options } = DEPLOYED as { resource: string; options: SemaphoreOptions };
const declared = new Semaphore(resource, options);

export interface DeployedInput {
  /** How often it takes a permit, one after the other; each until the signal `finish`. */
  times?: number;
  /** For a semaphore that has keys. */
  key?: string;
  /** By `withPermits`. */
  asSet?: boolean;
}

/** @returns the slot of each permit that it has had */
export async function deployed({ times = 1, asSet = false, ...input }: DeployedInput): Promise<string[]> {
  const key = options.perKey === undefined ? {} : { key: input.key ?? 'none' };
  const had: string[] = [];
  for (let time = 0; time < times; time++) {
    const finished = finishes();
    const work = async (permit: Permit) => {
      had.push(permit.slot);
      await marked(permit.runId, finished);
    };
    if (asSet) await withPermits([{ of: declared, ...key }], ([permit]) => work(permit));
    else await declared.withPermit(work, key);
  }
  return had;
}
