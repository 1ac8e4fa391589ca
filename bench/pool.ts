import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Command, Option } from 'commander';
import { diesWithUs } from '../scripts/support/dies-with-us';
import { mostAtOnce } from '../scripts/support/holder-intervals';
import type { CallerInput, Told } from './pool-caller';
import { type CrowdRun, measureCrowds } from './pool-crowd';
import { drawRun, type Work, type WorkRun } from './pool-report';
import { RIVALS, type RivalName } from './pool-rivals';
import { startRedis } from './redis-server';
import { type Bench, withBench } from './support';

const WORKS: Work[] = [
  { calls: 30, callMs: 100, capacity: 3 },
  { calls: 1_000, callMs: 100, capacity: 10 },
  { calls: 20_000, callMs: 0, capacity: 10 },
];

/** A rival that can't make all calls in good time makes the first so many: its rate is what counts. */
const MOST_CALLS: Partial<Record<RivalName, number>> = { client: 200, polling: 40, redis: 2_000 };

/** What `--work` calls many pools. */
const CROWD = 'crowd';

const CALLER = require.resolve('./pool-caller');

/** A process that makes calls. */
async function openCaller(input: CallerInput) {
  const child = diesWithUs(
    spawn(process.execPath, ['--import', 'tsx', CALLER, JSON.stringify(input)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    }),
  );
  const told: Told[] = [];
  let heard = () => {};
  let isOver = false;
  child.on('message', (message: Told) => {
    told.push(message);
    heard();
  });
  const over = once(child, 'exit').then(() => {
    isOver = true;
    heard();
  });
  const next = async (): Promise<Told> => {
    for (;;) {
      const message = told.shift();
      if (message !== undefined) return message;
      if (isOver) throw new Error(`a process of ${input.rival} ended before it was done`);
      await new Promise<void>((resolve) => {
        heard = resolve;
      });
    }
  };
  await next();
  return {
    async run(): Promise<[number, number][]> {
      child.send('go');
      const message = await next();
      if (typeof message !== 'object') throw new Error('expected calls');
      return message.calls;
    },
    async end(): Promise<void> {
      await next();
      await over;
    },
  };
}

async function measure(
  { env, taskQueue, redisPort }: { env: Bench['env']; taskQueue: string; redisPort?: number },
  rival: RivalName,
  work: Work,
  processes: number,
): Promise<WorkRun> {
  const calls = Math.min(work.calls, MOST_CALLS[rival] ?? work.calls);
  const input = { rival, address: env.address, taskQueue, redisPort, resource: `bench-${randomUUID()}` };
  const shares = Array.from({ length: processes }, (_, n) => Math.floor((calls + n) / processes));
  const callers = await Promise.all(shares.map((share) => openCaller({ ...input, ...work, calls: share })));
  const startedMs = Number(process.hrtime.bigint()) / 1e6;
  const made = (await Promise.all(callers.map((caller) => caller.run()))).flat();
  const tookMs = Math.max(...made.map(([, toMs]) => toMs)) - startedMs;
  await Promise.all(callers.map((caller) => caller.end()));
  return {
    rival,
    work,
    processes,
    calls,
    tookMs,
    mostAtOnce: mostAtOnce(made.map(([fromMs, toMs]) => ({ fromMs, toMs }))),
  };
}

interface Options {
  json?: boolean;
  only?: RivalName[];
  work?: string;
}

/** `pnpm bench:pool`: short work under a PermitPool, beside its rivals. */
async function main(): Promise<void> {
  const kinds = [...WORKS.map(({ calls }) => String(calls)), CROWD];
  const { json, only, work } = new Command('bench:pool')
    .addOption(new Option('--json', 'print JSON instead of charts'))
    .addOption(new Option('--only <rivals...>', 'measure these').choices(RIVALS))
    .addOption(new Option('--work <calls>', 'so many calls, or many pools').choices(kinds))
    .parse()
    .opts<Options>();
  const say = (line: string) => (json ? console.error(line) : console.log(line));
  const works = WORKS.filter(({ calls }) => (work ?? String(calls)) === String(calls));
  const redis = await startRedis();
  const rivals = RIVALS.filter((rival) => (!only || only.includes(rival)) && (rival !== 'redis' || redis));
  if (!redis)
    say('There is no redis-server on this machine, so Redis is left out (Debian: apt-get install redis-server).');
  const runs: WorkRun[] = [];
  const crowds: CrowdRun[] = [];
  try {
    await withBench(async (bench) => {
      const { env, permitQueue } = bench;
      for (const work of works) {
        for (const processes of [1, 2]) {
          const side: WorkRun[] = [];
          for (const rival of rivals) {
            side.push(await measure({ env, taskQueue: permitQueue, redisPort: redis?.port }, rival, work, processes));
          }
          runs.push(...side);
          say(drawRun(side));
        }
      }
      if ((work ?? CROWD) === CROWD) crowds.push(...(await measureCrowds(bench, say)));
    });
  } finally {
    redis?.stop();
  }
  if (json) console.log(JSON.stringify({ runs, crowds }));
  const wrong = runs.filter(({ rival, work, mostAtOnce }) => rival === 'pool' && mostAtOnce > work.capacity);
  if (wrong.length > 0) throw new Error(`more calls at once than the capacity: ${JSON.stringify(wrong)}`);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
