import type { Command } from 'commander';
import { DEFAULT_TASK_QUEUE } from '../shared/protocol';
import { durationOption, type Output, withOutputFlags } from './arguments';
import { type ConnectionFlags, withClient, withConnectionFlags } from './connection';
import { findings } from './doctor-checks';
import { EXIT } from './exit-codes';
import { drawFinding, type Finding } from './resource-findings';
import { print, printJson } from './terminal';
import type { Text } from './text';

interface DoctorFlags extends ConnectionFlags {
  taskQueue: string;
  waitingLonger: number;
  probe?: true;
  output: Output;
}

/** The most findings of one kind that it shows. */
const SHOWN = 20;

const HELP = `
Example:
  temporal-semaphore doctor --probe
`;

export function addDoctor(program: Command, done: (exitCode: number) => void): void {
  const doctor = program
    .command('doctor')
    .summary('check for problems')
    .description(
      `Checks the server, the permit worker's task queue and all resources in use, and reports problems. Without --probe, it changes nothing. Exit code ${EXIT.no}: at least one finding is "bad".`,
    )
    .option('--task-queue <name>', "the permit worker's task queue", DEFAULT_TASK_QUEUE)
    .addOption(
      durationOption('--waiting-longer <duration>', 'warn about waiters that have waited longer than this', '10m'),
    )
    .option('--probe', 'also acquire and release permits of a test resource, and report how long that takes')
    .addHelpText('after', HELP)
    .action(async ({ taskQueue, waitingLonger, probe, output, ...connection }: DoctorFlags) => {
      const options = { taskQueue, waitingLongerMs: waitingLonger, probe };
      const found = await withClient(connection, (client) => findings(client, options));
      if (output !== 'text') printJson(found, output);
      else for (const shown of lines(found)) print(shown);
      done(found.some(({ is }) => is === 'bad') ? EXIT.no : 0);
    });
  withConnectionFlags(withOutputFlags(doctor));
}

/** Shows the first findings of each kind: any client may start thousands of permits, each with a problem. */
function lines(found: Finding[]): Text[] {
  return (['ok', 'warning', 'bad'] as const).flatMap((kind) => {
    const ofKind = found.filter(({ is }) => is === kind);
    const more = ofKind.length - SHOWN;
    const rest = more > 0 ? [drawFinding({ is: kind, what: `… and ${more} more: -o json lists them all` })] : [];
    return [...ofKind.slice(0, SHOWN).map(drawFinding), ...rest];
  });
}
