import type { ResourceSlot } from '../operator/inspection';
import type { OverrideState } from '../shared/protocol';
import { isSlotInUse, MAX_SLOTS, type Slots, slotNames, slotsMark } from '../shared/slots';
import { versionInForce } from '../shared/version-in-force';
import type { InForce } from './in-force';
import { isFirstOf, type Limit, type LimitsFile, poolOf, reasonOf, wantedCount } from './limit';

// Compares what is wanted with what is in force, and decides what to change. Pure: applying the changes and only showing them use the same
// result.

/** One command to the queue of a resource. What is absent stays as it is. */
export interface Change {
  /** How many slots are to be in use. */
  readonly capacity?: number;
  readonly paused?: boolean;
  readonly reason: string;
  /** The version of the file. */
  readonly fileVersion: number;
  /** The slots that callers declare, to which the command applies. */
  readonly declared: Slots;
  /** The override that was seen; 0: none. */
  readonly ifVersion: number;
}

/** Why a limit can't be compared or put into force. */
export interface Problem {
  /**
   * `unseen`: no worker says what is set. `impossible`: what the limit says can't be. `superseded`: another file of this version, or of a
   * greater one, has set something else.
   */
  readonly kind: 'unseen' | 'impossible' | 'superseded';
  readonly message: string;
}

/** A limit beside what is in force. */
export interface Comparison {
  readonly limit: Limit;
  readonly now: InForce;
  /** How many slots callers declare, if known. */
  readonly declared?: number;
  /** How many slots are in use, pauses aside. Absent if unknown. */
  readonly inUse?: number;
  /** Callers declare more slots than when the override was set, so it does not bind them all. */
  readonly outgrown?: true;
  /** What to change; absent if the limit is in force. */
  readonly change?: Change;
  /** The permits above the limit. Each permit counts until its holder releases it. */
  readonly above: readonly ResourceSlot[];
  /** The resource is not in use and nothing is set, so there is nothing to compare with. */
  readonly unused?: true;
  readonly problem?: Problem;
}

/** @param seen what is in force for each resource, by {@link poolOf} */
export function compare({ version, limits }: LimitsFile, seen: ReadonlyMap<string, InForce>): Comparison[] {
  return limits.flatMap((limit) => {
    const now = seen.get(poolOf(limit));
    return now ? compareOne(version, limit, now) : [];
  });
}

function compareOne(version: number, limit: Limit, now: InForce): Comparison {
  const belief = believed(limit, now);
  const { override } = now;
  const outgrown = override !== undefined && belief !== undefined && !binds(override, belief);
  const inUse = override ? (override.capacity ?? slotNames(override.slots).length) : belief?.count;
  const shown = {
    limit,
    now,
    ...(belief && { declared: belief.count }),
    ...(inUse !== undefined && { inUse }),
    ...(outgrown && { outgrown }),
  };
  const wanted = wantedCount(limit);
  const isPaused = override?.paused === true && override.pausedUntilMs === undefined;
  const isTemporary = override?.capacityUntilMs !== undefined; // it ends by itself
  const resizes = wanted !== undefined && !isTemporary && (outgrown || inUse !== wanted);
  const pauses = limit.paused ? outgrown || !isPaused : limit.paused === false && isPaused;
  const isToChange = resizes || pauses;
  const problem =
    problemOf(limit, now, belief, isToChange) ?? (isToChange ? supersededBy(override, version, outgrown) : undefined);
  if (problem) return { ...shown, above: [], problem };
  // A pause takes all slots out of use: the slots of the file may then stand for those that callers declare.
  const declared = belief?.slots ?? (limit.paused ? ((limit.slots && [...limit.slots]) ?? limit.capacity) : undefined);
  if (declared === undefined) return { ...shown, above: [], ...((resizes || pauses) && { unused: true }) };
  const to = { ...(resizes && { capacity: wanted }), ...(pauses && { paused: limit.paused !== false }) };
  const inForce = allowed(limit, override, declared);
  const above = now.permits.filter(({ state, slot }) => state === 'held' && !isSlotInUse(slot, inForce));
  if (!resizes && !pauses) return { ...shown, above };
  const order = { reason: reasonOf(version, limit), fileVersion: version, declared };
  const change = { ...to, ...order, ifVersion: override?.version ?? 0 };
  return { ...shown, above, change };
}

/** The slots that callers take the resource to have: how many, and which, where their names are known. */
export interface Belief {
  readonly count: number;
  readonly slots?: Slots;
}

/**
 * The greatest number that those who hold or wait declare. If some of them count slots and others name them, those count who do as the file
 * does: any client can send a ticket. If there are none: what the file says, or what an operator named last.
 */
export function believed({ declared, slots }: Limit, { told, permits, override }: InForce): Belief | undefined {
  const known = [...told, override?.slots, declared, slots && [...slots]].filter((it) => it !== undefined);
  const stated = permits.flatMap(({ state, permit }) => (state === 'drained' ? [] : (permit.slots ?? [])));
  const beliefs = [
    ...told.map(beliefOf),
    ...stated.flatMap((mark): Belief | [] => {
      const count = Number.parseInt(String(mark), 10);
      if (count > MAX_SLOTS) return []; // any client can start a permit, with any memo
      const slots = typeof mark === 'number' ? mark : known.find((slots) => slotsMark(slots) === mark);
      return slots === undefined ? { count } : beliefOf(slots);
    }),
  ];
  const ofFile = declared ?? slots;
  const isAsInFile = ({ slots: told = [] }: Belief) => ofFile !== undefined && typeof told === typeof ofFile;
  const [most] = beliefs.sort(
    (a, b) =>
      Number(isAsInFile(b)) - Number(isAsInFile(a)) ||
      b.count - a.count ||
      Number(b.slots !== undefined) - Number(a.slots !== undefined),
  );
  if (most) return most;
  const last = declared ?? override?.slots;
  return last === undefined ? undefined : beliefOf(last);
}

function beliefOf(slots: Slots): Belief {
  return { count: slotNames(slots).length, slots };
}

/** Whether no caller that believes this tries a slot that the override takes out of use and the queue does not keep. */
function binds(override: OverrideState, { count, slots }: Belief): boolean {
  const kept = new Set(slotNames(override.slots));
  if (slots === undefined) return count <= kept.size;
  return slotNames(slots).every((slot) => kept.has(slot) || isSlotInUse(slot, override));
}

function problemOf(limit: Limit, now: InForce, belief: Belief | undefined, isToChange: boolean): Problem | undefined {
  if (now.queue === 'silent') {
    const where = now.taskQueue === undefined ? '' : ` on task queue "${now.taskQueue}"`;
    return { kind: 'unseen', message: `no worker answers for its queue${where}, so what is set is not known` };
  }
  if (!belief) return undefined;
  const impossible = (message: string): Problem => ({ kind: 'impossible', message });
  const { count, slots } = belief;
  if (slots === undefined) {
    if (!isToChange && !limit.slots) return undefined;
    return impossible(`its callers declare ${count} named slots, and neither a waiter nor "declared" names them`);
  }
  const names = slotNames(slots);
  if (limit.slots && !isFirstOf(limit.slots, names)) {
    return impossible(`its callers declare ${shownSlots(slots)}: "slots" can only be the first of these`);
  }
  const wanted = wantedCount(limit) ?? 0;
  if (typeof slots === 'number' || wanted <= names.length) return undefined;
  return impossible(`its callers declare ${shownSlots(slots)}: named slots can't grow`);
}

/**
 * The greatest version of all files wins, so that two of them never undo each other's changes. What this version itself has set can only
 * differ if another file has the same version, or if callers declare more since.
 */
function supersededBy(override: OverrideState | undefined, version: number, outgrown: boolean): Problem | undefined {
  const fileVersion = versionInForce(override) ?? 0;
  if (fileVersion < version || (fileVersion === version && outgrown)) return undefined;
  const which =
    fileVersion === version ? 'a limits file of the same version' : `version ${fileVersion} of a limits file`;
  return {
    kind: 'superseded',
    message: `${which} has set something else, which stays: raise the version of this file, which is ${version}`,
  };
}

const MOST_SHOWN = 10;

function shownSlots(slots: Slots): string {
  if (typeof slots === 'number') return `a capacity of ${slots}`;
  return `the slots ${slots.slice(0, MOST_SHOWN).join(', ')}${slots.length > MOST_SHOWN ? ', …' : ''}`;
}

/** What the limit allows. A pause that the limit does not mention puts no permit above the limit. */
function allowed(limit: Limit, override: OverrideState | undefined, slots: Slots): OverrideState {
  const capacity = wantedCount(limit) ?? override?.capacity;
  return { version: 0, slots, paused: Boolean(limit.paused), ...(capacity !== undefined && { capacity }) };
}
