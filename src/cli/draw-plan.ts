import type { Comparison } from '../limits/compare';
import { type Limit, poolOf, wantedCount } from '../limits/limit';
import type { SlotInspection } from '../operator';
import { shown } from '../operator/inspector';
import { shownPurpose } from '../operator/reader';
import { versionInForce } from '../shared/version-in-force';
import { holderName } from './terminal';
import { dim, green, red, Text, text, yellow } from './text';
import { disagreementLine, fromNow, pauseNote, sinceNow, untilNote } from './wording';

/** What is to be said of a limit. */
export function kindOf({ problem, change, unused }: Comparison): 'problem' | 'change' | 'unused' | 'in-force' {
  if (problem) return 'problem';
  if (change) return 'change';
  return unused ? 'unused' : 'in-force';
}

/** The plan as text: what would change, and what can't be compared; limits that are in force are counted. */
export function drawPlan(comparisons: readonly Comparison[]): Text {
  const unused = comparisons.some((it) => kindOf(it) === 'unused') ? [dim(UNUSED)] : [];
  const lines = [...comparisons.flatMap(drawLimit), ...unused];
  return Text.lines([...lines, ...(lines.length > 0 ? [''] : []), summary(comparisons)]);
}

function drawLimit(comparison: Comparison): Text[] {
  const { limit, problem, above } = comparison;
  const pool = poolOf(limit);
  const kind = kindOf(comparison);
  const notes = kind === 'problem' ? [] : [...beliefNotes(comparison), ...aboveNotes(above)];
  if (problem) return [text`${red('!')} ${pool}: ${problem.message}`];
  if (kind === 'unused') return [text`${dim('?')} ${pool}: not in use`];
  if (kind === 'change') return [text`${yellow('~')} ${changeNote(comparison)}`, ...notes];
  return notes.length > 0 ? [text`${green('=')} ${pool}: ${nowNote(comparison)}`, ...notes] : [];
}

const UNUSED =
  'apply skips a resource or key that is not in use, unless the file names what its callers declare ("declared").';

/** `gpu-pool: 3, as declared -> 5 (ml-platform: two more GPUs)` */
export function changeNote(comparison: Comparison): Text {
  const { limit } = comparison;
  const why = [limit.owner, (limit.paused || undefined)?.reason ?? limit.note].filter((it) => it !== undefined);
  return text`${poolOf(limit)}: ${nowNote(comparison)} -> ${wantedNote(comparison)}${why.length > 0 ? ` (${why.join(': ')})` : ''}`;
}

function nowNote({ now: { override }, inUse }: Comparison): string {
  const slots = `${inUse ?? '?'}${override?.capacity === undefined ? ', as declared' : ''}`;
  return override?.paused ? `${slots}, ${pauseNote(shown(override))}` : slots;
}

function wantedNote({ now: { override }, inUse, change }: Comparison): string {
  const slots = `${change?.capacity ?? inUse ?? '?'}`;
  return (change?.paused ?? override?.paused) ? `${slots}, paused` : slots;
}

function beliefNotes(comparison: Comparison): Text[] {
  const { limit, now, outgrown, declared, inUse } = comparison;
  const { capacityUntil } = now.override ? shown(now.override) : {};
  return [
    ...(capacityUntil
      ? [text`    ${inUse} was set${untilNote(capacityUntil)}, and apply leaves it alone until then`]
      : []),
    ...(staysPaused(comparison)
      ? [
          text`    paused by a limits file (version ${versionInForce(now.override)} or earlier), and this file does not mention the pause, which stays: write "paused: false" to end it`,
        ]
      : []),
    ...(outgrown ? [text`    ${inUse} was set for fewer slots than the ${declared} that callers declare now`] : []),
    ...(now.disagreement ? [text`    ${yellow(disagreementLine(now.disagreement))}`] : []),
    ...(isOtherThanDeclared(limit, declared)
      ? [text`    its callers declare ${declared}, which differs from the file`]
      : []),
  ];
}

/** Whether an earlier version of a file has paused the resource, and this one says nothing of a pause. */
function staysPaused({ limit, now: { override } }: Comparison): boolean {
  const isOfFile = versionInForce(override) !== undefined && override?.pausedUntilMs === undefined;
  return limit.paused === undefined && override?.paused === true && isOfFile;
}

function isOtherThanDeclared({ declared }: Limit, told: number | undefined): boolean {
  const count = typeof declared === 'number' ? declared : declared?.length;
  return count !== undefined && told !== undefined && count !== told;
}

/** The most holders to name for each resource. Each costs a query. */
export const NAMED = 4;

/** Those who hold more than a limit allows. */
export function aboveNotes(above: readonly SlotInspection[]): Text[] {
  const lines = above.slice(0, NAMED).flatMap(({ slot, permit }) => {
    if (!permit) return [];
    const purpose = shownPurpose(permit);
    const who = text`${holderName(permit.holder)} (for ${sinceNow(permit.since)}${purpose === undefined ? '' : text`, ${purpose}`})`;
    const lease = permit.leaseDeadline
      ? `; its lease ends in ${fromNow(permit.leaseDeadline)}, unless it is renewed`
      : '';
    return text`    above the limit until it is released: slot ${slot}, ${who}${lease}`;
  });
  return above.length > NAMED ? [...lines, text`    … and ${above.length - NAMED} more`] : lines;
}

/** `2 to change, 3 in force, 1 not in use.` */
function summary(comparisons: readonly Comparison[]): Text {
  const numberOf = (kind: ReturnType<typeof kindOf>) => comparisons.filter((it) => kindOf(it) === kind).length;
  const others = [
    [numberOf('unused'), 'not in use'],
    [numberOf('problem'), "that can't be put into force"],
  ].flatMap(([number, what]) => (number === 0 ? [] : [`${number} ${what}`]));
  const changes = numberOf('change');
  return text`${[changes === 0 ? 'Nothing to change' : `${changes} to change`, `${numberOf('in-force')} in force`, ...others].join(', ')}.`;
}

/** One limit, its comparison and its change in JSON. */
export function planJson(comparison: Comparison): object {
  const { limit, now, declared, inUse, outgrown, change, above, problem } = comparison;
  const { resource, key, owner, note, paused } = limit;
  const wanted = { capacity: wantedCount(limit), paused: paused === undefined ? undefined : paused !== false };
  const override = now.override ? shown(now.override) : null;
  return {
    resource,
    key,
    owner,
    note,
    is: kindOf(comparison),
    wanted,
    now: { capacity: inUse, declared, outgrown, override, disagreement: now.disagreement },
    change,
    above,
    problem: problem?.message,
  };
}
