import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { judgeAgain } from '../test/reliability/chaos/again';
import { clusterServer } from '../test/reliability/chaos/cluster-server';
import { parseChaosOptions } from '../test/reliability/chaos/options';
import { isClean, markdown } from '../test/reliability/chaos/report';
import { runChaos } from '../test/reliability/chaos/run';
import { givenServer, ownServer } from '../test/reliability/chaos/server';
import { runMain } from './support/main';

/** `pnpm chaos`: real processes on a real server, a nemesis that breaks them, and a verdict on what was promised. */
async function main(interrupt: AbortSignal): Promise<number> {
  const options = parseChaosOptions(process.argv.slice(2));
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
  const startMs = performance.now();
  const tell = (line: string) =>
    console.log(`${((performance.now() - startMs) / 1_000).toFixed(1).padStart(7)} s  ${line}`);
  const { address, cluster } = options;
  const startServer = async (directory: string) => {
    if (cluster) return await clusterServer(tell);
    return address ? givenServer(address) : await ownServer(directory);
  };
  const report = options.again
    ? await judgeAgain(options.again, options.idleLimit, commit())
    : await runChaos(startServer, options, { commit: commit(), command: commandOf(options.seed), tell, interrupt });
  if (options.json) await writeFile(options.json, `${JSON.stringify(report, undefined, 2)}\n`);
  if (options.report) await writeFile(options.report, markdown(report));
  console.log(`\n${markdown(report)}`);
  return isClean(report) ? 0 : 1;
}

/** With the seed that was drawn, so that it can be repeated. */
function commandOf(seed: string): string {
  const args = process.argv.slice(2).filter((arg) => arg !== '--');
  return ['pnpm chaos', ...args, ...(args.includes('--seed') ? [] : ['--seed', seed])].join(' ');
}

function commit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8', cwd: __dirname }).trim();
  return (
    git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no') ? ' and changes' : '')
  );
}

runMain(main);
