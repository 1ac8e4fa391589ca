import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { type Applied, applyChanges, type ToChange } from '../limits/apply';
import { type Comparison, compare } from '../limits/compare';
import { exportLimits, limitsText } from '../limits/export';
import { lookAtLimits, lookAtPools, withLeases } from '../limits/in-force';
import { type LimitsFile, poolOf } from '../limits/limit';
import { limitsFileAt } from '../limits/limits-file-at';
import type { ResourceSlot } from '../operator';
import { shown } from '../operator/inspector';
import { resourcesInUse } from '../operator/resources-in-use';
import { type Output, withOutputFlags, withTaskQueueFlag } from './arguments';
import { type ConnectionFlags, withClient, withConnectionFlags } from './connection';
import { changeNote, drawPlan, kindOf, NAMED, planJson } from './draw-plan';
import { EXIT } from './exit-codes';
import { confirmed, print, printJson, printYaml, say } from './terminal';
import { green, red, type Text, text } from './text';
import { count } from './wording';

// Limits as code: a file says how much there is of each resource, `plan` shows what that changes, and `apply` changes it.

interface LimitsFlags extends ConnectionFlags {
  output: Output;
}

interface ApplyFlags extends LimitsFlags {
  taskQueue?: string;
  yes?: true;
}

const PLAN_HELP = `
plan changes nothing.

Exit code:
  0   apply would change nothing
  ${EXIT.no}   a limit can't be put into force
  ${EXIT.changes}   apply would change something
  ${EXIT.usage}  the file is invalid: each mistake is reported with its line and column
  ${EXIT.unavailable}  a limit can't be compared

Example:
  temporal-semaphore plan limits.yaml

  version: 7                 # in limits.yaml
  resources:
    gpu-pool: { capacity: 5, owner: ml-platform, note: two more GPUs }
    openai:
      capacity: 20
      perKey: { declared: 2, keys: { acme: 5 } }
    vendor-api:
      paused: { reason: migration }
`;

export function addPlan(program: Command, done: (exitCode: number) => void): void {
  const plan = program
    .command('plan <file>')
    .summary('compare a limits file with what is in force')
    .description(
      'Compares a limits file with the limits in force: those that operators have set, and those that callers declare, as queues and permits report them. Shows what apply would change, and which permits are held above the limits of the file.',
    )
    .addHelpText('after', PLAN_HELP)
    .action(async (path: string, flags: LimitsFlags) => {
      const limits = limitsFileAt(path);
      const comparisons = await withClient(flags, async (client) => await planned(client, limits));
      if (flags.output === 'text') print(drawPlan(comparisons));
      else printJson(comparisons.map(planJson), flags.output);
      done(problemCode(comparisons) || (toChange(comparisons).length > 0 ? EXIT.changes : 0));
    });
  withConnectionFlags(withOutputFlags(plan));
}

const APPLY_HELP = `
apply shows the plan and asks for confirmation; without a terminal, it needs
--yes. It is safe to run again: limits that are in force already stay as they
are. Exit code ${EXIT.busy}: an operator changed a limit after apply had computed its
plan. apply then stops, and reports which limits it has changed. Run it again.

Example:
  temporal-semaphore apply limits.yaml --yes
`;

export function addApply(program: Command, done: (exitCode: number) => void): void {
  const apply = program
    .command('apply <file>')
    .summary('put a limits file into force')
    .description(
      'Changes the limits in force to match a limits file, as resize, pause and resume would. Holders keep their permits until they release them.',
    )
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', APPLY_HELP)
    .action(async (path: string, flags: ApplyFlags) => {
      const limits = limitsFileAt(path);
      done(await withClient(flags, async (client) => await applied(client, limits, flags)));
    });
  withConnectionFlags(withOutputFlags(withTaskQueueFlag(apply)));
}

const EXPORT_HELP = `
The file lists each resource and each key that has a holder, a waiter or an
override. It leaves out a pause that ends automatically (pause --until). The
"version" in the file is one more than the highest version of the files that set
the limits in force, so that apply accepts it. The file contains no owners: the
server does not store an owner.
Exit code ${EXIT.unavailable}: a limit could not be read, and is left out.

Example:
  temporal-semaphore export > limits.yaml
`;

export function addExport(program: Command, done: (exitCode: number) => void): void {
  const exporting = program
    .command('export')
    .summary('write what is in force as a limits file')
    .description('Writes the limits that are in force now as a limits file: in YAML or, with -o json, in JSON.')
    .addHelpText('after', EXPORT_HELP)
    .action(async (flags: LimitsFlags) => {
      const seen = await withClient(flags, async (client) => {
        return await lookAtPools(client, [...(await resourcesInUse(client, { keys: true })).keys()]);
      });
      const exported = exportLimits(seen);
      if (flags.output === 'text') printYaml(limitsText(exported));
      else printJson(exported.data, flags.output);
      for (const { pool, why } of exported.leftOut) say(text`"${pool}" is left out: ${why}.`);
      done(exported.leftOut.length > 0 ? EXIT.unavailable : 0);
    });
  withConnectionFlags(withOutputFlags(exporting));
}

/** With the leases of those who hold more than their limit, as far as they are named. */
async function planned(client: Client, limits: LimitsFile): Promise<Comparison[]> {
  const { file, seen: inForce } = await lookAtLimits(client, limits);
  const comparisons = compare(file, inForce);
  const asked = await withLeases(
    client,
    comparisons.flatMap(({ above }) => above.slice(0, NAMED)),
  );
  const found = new Map(asked.map((slot) => [slot.permit.workflowId, slot]));
  const seen = ({ permit }: ResourceSlot) => found.get(permit.workflowId) ?? [];
  return comparisons.map((it) => ({
    ...it,
    above: [...it.above.slice(0, NAMED).flatMap(seen), ...it.above.slice(NAMED)],
  }));
}

function toChange(comparisons: readonly Comparison[]): ToChange[] {
  return comparisons.filter((it): it is ToChange => it.change !== undefined);
}

/** 0 if every limit can be put into force. */
function problemCode(comparisons: readonly Comparison[]): number {
  const kinds = comparisons.flatMap(({ problem }) => problem?.kind ?? []);
  if (kinds.includes('unseen')) return EXIT.unavailable;
  return kinds.length > 0 ? EXIT.no : 0;
}

/** @returns the exit code */
async function applied(client: Client, limits: LimitsFile, flags: ApplyFlags): Promise<number> {
  const { output, taskQueue } = flags;
  const comparisons = await planned(client, limits);
  const changes = toChange(comparisons);
  if (output === 'text') print(drawPlan(comparisons));
  if (changes.length > 0 && !(await confirmed(text`Apply ${count(changes.length, 'change')}?`, flags))) return EXIT.no;
  const onApplied = (it: Applied) => output === 'text' && print(drawApplied(it));
  const all = await applyChanges(client, changes, { taskQueue, onApplied });
  if (output !== 'text') printJson(appliedJson(comparisons, all), output);
  return failureCode(all) || problemCode(comparisons);
}

function drawApplied(it: Applied): Text {
  const { of } = it;
  if (it.is === 'changed') return text`${green('changed')} ${changeNote(of)}`;
  if (it.is === 'not-sent') return text`${red('not sent')} ${poolOf(of.limit)}`;
  return text`${red('not changed')} ${poolOf(of.limit)}: ${it.problem}`;
}

/** Says what was done and what was not. @returns 0 if all was done */
function failureCode(all: readonly Applied[]): number {
  const numberOf = (is: Applied['is']) => all.filter((it) => it.is === is).length;
  const [changed, stale, failed] = [numberOf('changed'), numberOf('stale'), numberOf('failed')];
  if (changed === all.length) return 0;
  const why = stale > 0 ? 'an operator has made a change since the plan' : `${failed} may not have changed`;
  say(text`${changed} of ${count(all.length, 'change')} made: ${why}. Run plan, then apply again.`);
  return stale > 0 ? EXIT.busy : EXIT.unavailable;
}

function appliedJson(comparisons: readonly Comparison[], all: readonly Applied[]): object[] {
  const outcomes = new Map<Comparison, Applied>(all.map((it) => [it.of, it]));
  return comparisons.map((comparison) => {
    const { resource, key } = comparison.limit;
    const outcome = outcomes.get(comparison);
    const problem = outcome && 'problem' in outcome ? outcome.problem : comparison.problem?.message;
    const override =
      outcome?.is === 'changed' ? outcome.override : comparison.now.override && shown(comparison.now.override);
    return { resource, key, is: outcome?.is ?? kindOf(comparison), override: override ?? null, problem };
  });
}
