import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The wall clock of one process, which can be set. */
export interface ActorClock {
  readonly env: NodeJS.ProcessEnv;
  /** Sets it to that many seconds from the true time. */
  jump(seconds: number): void;
}

/** Debian's place first. */
const LIBRARIES = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/faketime/libfaketime.so.1',
  '/usr/local/lib/faketime/libfaketime.so.1',
];

const LIBRARY = LIBRARIES.find((path) => existsSync(path));

export const NO_FAKETIME =
  'Left out: wall-clock jumps, which need libfaketime. On Debian or Ubuntu: apt-get install -y libfaketime';

/** `undefined` where there is no libfaketime. Its process has a wall clock of its own; the monotonic clock stays true. */
export function actorClock(directory: string, name: string): ActorClock | undefined {
  if (LIBRARY === undefined) return undefined;
  const file = join(directory, `${name}.clock`);
  const jump = (seconds: number) => writeFileSync(file, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
  jump(0);
  return {
    env: {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DONT_RESET: '1',
    },
    jump,
  };
}
