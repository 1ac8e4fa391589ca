import { version } from '@temporalio/common/package.json';

/** The oldest SDK that package.json accepts as a peer. A package manager may be told to ignore that (`npm install --force`). */
export const OLDEST_SDK = '1.18.2';

/** @throws Error for an SDK that lacks what this library needs */
export function refuseOlderSdk(version: string): void {
  const found = partsOf(version);
  const oldest = partsOf(OLDEST_SDK);
  const differs = oldest.findIndex((part, index) => part !== found[index]);
  if (differs < 0 || (found[differs] ?? 0) > (oldest[differs] ?? 0)) return;
  throw new Error(
    `temporal-semaphore needs Temporal's SDK ${OLDEST_SDK} or later, and @temporalio/common is ${version}. Install a newer version of all @temporalio packages.`,
  );
}

const partsOf = (version: string) => version.split('.').map((part) => Number.parseInt(part, 10));

// Each entry that loads the SDK imports this module first: another might fail on an older SDK for a reason that says less.
refuseOlderSdk(version);
