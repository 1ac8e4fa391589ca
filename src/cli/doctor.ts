import type { Command } from 'commander';
import { durationOption } from './arguments';
import { withClient } from './client';
import { type ConnectionFlags, withConnectionFlags } from './connection';
import { type Finding, findings } from './doctor-checks';
import { EXIT } from './exit-codes';
import { paint } from './paint';
import { plain, print, printJson } from './render';

interface DoctorFlags extends ConnectionFlags {
  taskQueue: string;
  waitingLonger: number;
  probe?: true;
  json?: true;
}

const MARKS = { ok: paint.green('ok  '), warning: paint.yellow('warn'), bad: paint.red('bad ') };

export function addDoctor(program: Command, done: (exitCode: number) => void): void {
  const doctor = program
    .command('doctor')
    .summary('look for what is wrong')
    .description(
      `Looks at the server, the permit worker's task queue and all pools in use, and says what is wrong. Without --probe it changes nothing. Exit code ${EXIT.no}: something is bad.`,
    )
    .option('--task-queue <name>', "the permit worker's task queue", 'permits')
    .addOption(durationOption('--waiting-longer <duration>', 'warn of who waits longer than that', '10m'))
    .option('--probe', 'also take and give back permits of a pool of its own, and say how long that takes')
    .option('--json', 'one JSON text on standard output')
    .action(async ({ taskQueue, waitingLonger, probe, json, ...connection }: DoctorFlags) => {
      const options = { taskQueue, waitingLongerMs: waitingLonger, probe };
      const found = await withClient(connection, (client) => findings(client, options));
      if (json) printJson(found);
      else for (const finding of found) print(line(finding));
      done(found.some(({ is }) => is === 'bad') ? EXIT.no : 0);
    });
  withConnectionFlags(doctor);
}

function line({ is, what, advice }: Finding): string {
  return `${MARKS[is]}  ${plain(what)}${advice === undefined ? '' : `\n      ${paint.dim(plain(advice))}`}`;
}
