import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../../scripts/support/main';
import type { Fault } from './faults';
import type { FaultEvent } from './record';
import { type PlannedFault, planFaults } from './schedule';
import type { World } from './world';

export interface NemesisOptions {
  seed: string;
  durationMs: number;
  /** How long it is from one fault to the next, on average. */
  everyMs: number;
  /** Called with a line for each fault. */
  tell(line: string): void;
}

/** Carries the plan of faults out. When it is over, all of them are healed. */
export async function torment(
  world: World,
  faults: readonly Fault[],
  { seed, durationMs, everyMs, tell }: NemesisOptions,
  interrupt: AbortSignal,
): Promise<void> {
  setMaxListeners(0, interrupt); // one for each fault that lasts
  const byKind = new Map(faults.map((fault) => [fault.kind, fault]));
  const under: Promise<void>[] = [];
  const startMs = performance.now();
  for (const planned of planFaults(faults, { seed, durationMs, everyMs })) {
    await pause(startMs + planned.atMs - performance.now(), interrupt);
    if (interrupt.aborted) break;
    const fault = byKind.get(planned.kind);
    // Faults overlap: nobody waits here for one to be healed.
    if (fault) under.push(carryOut(world, fault, planned, tell, interrupt));
  }
  await pause(startMs + durationMs - performance.now(), interrupt);
  await Promise.all(under);
}

async function carryOut(
  world: World,
  fault: Fault,
  planned: PlannedFault,
  tell: (line: string) => void,
  interrupt: AbortSignal,
): Promise<void> {
  const event: FaultEvent = { kind: fault.kind, atMs: Date.now() };
  world.observer.faults.push(event);
  try {
    const injected = await fault.inject(world, planned);
    if (!injected) {
      event.failed = 'nothing to hit';
      return;
    }
    event.target = injected.target;
    const { target, detail, heal } = injected;
    tell([fault.kind, target, detail, heal && `for ${planned.lastsMs} ms`].filter((it) => it !== undefined).join(' '));
    if (injected.heal) await pause(planned.lastsMs, interrupt);
    await injected.heal?.();
    event.healedMs = Date.now();
  } catch (error) {
    // What was to be hit may just have gone, and the server may be down.
    event.failed = messageOf(error);
  }
}

async function pause(ms: number, interrupt: AbortSignal): Promise<void> {
  await delay(Math.max(0, ms), undefined, { signal: interrupt }).catch(() => undefined);
}
