import { version } from '@temporalio/common/package.json';

/** What package.json asks of its peers. A package manager may be told to overlook that (`npm install --force`). */
export const OLDEST_SDK = '1.18.0';

const [OLDEST_MAJOR = 0, OLDEST_MINOR = 0] = OLDEST_SDK.split('.').map(Number);

/** @throws Error for an SDK that lacks what this library needs */
export function refuseOlderSdk(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST_MAJOR || (major === OLDEST_MAJOR && minor >= OLDEST_MINOR)) return;
  throw new Error(
    `temporal-semaphore needs Temporal's SDK ${OLDEST_SDK} or later, and @temporalio/common is ${version}. Install a newer version of all @temporalio packages.`,
  );
}

// Each entry that loads the SDK imports this module first: another might fail on an older SDK for a reason that says less.
refuseOlderSdk(version);
