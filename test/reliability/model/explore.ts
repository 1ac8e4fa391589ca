import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { type Bounds, System } from './system';

export interface Explored {
  /** Different situations. */
  states: number;
  /** Ways from one to another. */
  steps: number;
  /** The longest that any of them took until everyone was served, in milliseconds of its own clock. */
  longestMs: number;
}

/** A violation, and the shortest way to it. */
class Violation extends Error {
  constructor(
    readonly path: readonly string[],
    override readonly cause: unknown,
  ) {
    super(`${cause instanceof Error ? cause.message : cause}\n${path.map((name) => `  ${name}`).join('\n')}`);
  }
}

/**
 * Goes through every situation that the bounds allow, breadth first, and checks each: the invariants hold there, and from there
 * everyone is served once the faults end. An acquirer's code can't be copied halfway, so each situation is reached by doing its
 * steps anew.
 */
export async function explore(bounds: Bounds): Promise<Explored> {
  const seen = new Set<string>();
  const found: Explored = { states: 0, steps: 0, longestMs: 0 };
  let paths: number[][] = [[]];
  while (paths.length > 0) {
    const longer: number[][] = [];
    for (const path of paths) {
      const { system, names } = await follow(bounds, path);
      // Promises alone keep the event loop from its turn: neither a test's limit nor its reporter would have one.
      if (found.steps++ % 500 === 0) await turn();
      const key = createHash('sha1').update(system.key()).digest('base64');
      if (seen.has(key)) continue;
      seen.add(key);
      found.states++;
      const { length } = system.steps();
      for (let choice = 0; choice < length; choice++) longer.push([...path, choice]);
      try {
        found.longestMs = Math.max(found.longestMs, await system.settle());
      } catch (error) {
        throw new Violation(names, error);
      }
    }
    paths = longer;
  }
  return found;
}

async function follow(bounds: Bounds, path: readonly number[]): Promise<{ system: System; names: string[] }> {
  const system = new System(bounds);
  const names: string[] = [];
  try {
    await system.calm();
    for (const choice of path) {
      const step = system.steps()[choice];
      if (!step) throw new Error('the same steps led elsewhere');
      names.push(step.name);
      system.take(step);
      await system.calm();
    }
    system.check();
  } catch (error) {
    throw new Violation(names, error);
  }
  return { system, names };
}
