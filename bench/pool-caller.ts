// One process of `pnpm bench:pool`: opens its rival, waits for the word, and makes all its calls at once.
import { setTimeout as delay } from 'node:timers/promises';
import { openRival, type RivalInput } from './pool-rivals';

export interface CallerInput extends RivalInput {
  calls: number;
  callMs: number;
}

/** What the process tells: that it is open; then when each call began and ended; then that it is closed. */
export type Told = 'open' | 'closed' | { calls: [fromMs: number, toMs: number][] };

function tell(told: Told): void {
  process.send?.(told);
}

/** On a clock that all processes of the machine share. */
function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

async function main(input: CallerInput): Promise<void> {
  const rival = await openRival(input);
  tell('open');
  await new Promise((resolve) => process.once('message', resolve));
  const calls = Array.from({ length: input.calls }, (): [number, number] => [0, 0]);
  await Promise.all(
    calls.map((call) =>
      rival.withPermit(async () => {
        call[0] = nowMs();
        if (input.callMs > 0) await delay(input.callMs);
        call[1] = nowMs();
      }),
    ),
  );
  tell({ calls });
  await rival.close();
  tell('closed');
  process.disconnect();
}

main(JSON.parse(process.argv[2] ?? '')).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
