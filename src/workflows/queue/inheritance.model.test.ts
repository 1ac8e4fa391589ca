import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accumulatorResource, keyResource, wholeOf } from '../../shared/key-names';

import { ticketPartOf } from '../../shared/permit-set';
import type { Ticket } from '../../shared/protocol';
import { Inheritance } from './inheritance';
import { QueueState } from './queue-state';

/** How long a message takes in this world, and how long somebody holds at most. */
const MESSAGE_MS = 30;
const HOLD_MS = 1_000;

/** By then, whoever is to give way has heard of it, and a turn that was under way before has been used. */
const NEWS_MS = 8 * MESSAGE_MS;

const SET = accumulatorResource('r');

interface Caller {
  id: string;
  /** The resource of each permit that it wants, in the order of the claims. */
  wants: readonly string[];
  priorityKey: number;
  holdMs: number;
  sinceMs: number;
  servedMs?: number;
  held: { resource: string; slot: string }[];
}

/** Somebody has a slot of `r`. */
interface Possession {
  fromMs: number;
  toMs?: number;
  /** That of the caller; where it kept a part when it took the slot, the best of those who waited for what it kept. */
  priorityKey: number;
}

/** Queues as they are, and around them a world in which everyone lines up, and every message takes its time. */
class World {
  nowMs = 0;
  /** For how long slots of `r` were in use by callers that had all they want. */
  inUseMs = 0;
  readonly callers: Caller[] = [];
  private made = 0;
  private readonly events = new Map<number, (() => void)[]>();
  private readonly lines = new Map<string, { state: QueueState; inheritance: Inheritance }>();
  private readonly permits = new Map<string, string>();
  private readonly waiting = new Map<string, { caller: Caller; ticket: Ticket; resource: string; fromMs: number }>();
  private readonly possessions = new Map<string, Possession>();
  private readonly all: Possession[] = [];

  constructor(private readonly capacities: Record<string, number>) {}

  after(ms: number, run: () => void): void {
    const atMs = this.nowMs + Math.max(1, Math.round(ms));
    this.events.set(atMs, [...(this.events.get(atMs) ?? []), run]);
  }

  run(ms: number): void {
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs++) {
      for (const run of this.events.get(this.nowMs) ?? []) run();
      this.events.delete(this.nowMs);
    }
  }

  acquire(wants: readonly string[], priorityKey: number, holdMs: number): Caller {
    const caller = { id: `c${++this.made}`, wants, priorityKey, holdMs, sinceMs: this.nowMs, held: [] };
    this.callers.push(caller);
    this.lineUp(caller);
    return caller;
  }

  /** For how long work of lower priority had a slot that it took after the caller came. */
  behindMs({ sinceMs, servedMs = this.nowMs, priorityKey }: Caller): number {
    let [behindMs, countedToMs] = [0, sinceMs];
    for (const it of this.all) {
      if (it.priorityKey <= priorityKey || it.fromMs <= sinceMs + MESSAGE_MS) continue;
      const fromMs = Math.max(it.fromMs, countedToMs);
      const toMs = Math.min(it.toMs ?? this.nowMs, servedMs);
      behindMs += Math.max(0, toMs - fromMs);
      countedToMs = Math.max(countedToMs, toMs);
    }
    return behindMs;
  }

  private lineUp(caller: Caller): void {
    const { id, wants, priorityKey, sinceMs, held } = caller;
    const resource = wants[held.length] as string;
    const ticket: Ticket = {
      id: `${id}-${held.length}-${++this.made}`,
      waiter: { workflowId: id, runId: 'r' },
      slots: this.capacities[resource] ?? 1,
      sinceMs,
      priorityKey,
      ...ticketPartOf({ semaphore: { resource } } as never, held),
    };
    const permits = wants.filter((it) => it === resource).length;
    if (permits > 1) ticket.permits = permits;
    this.waiting.set(ticket.id, { caller, ticket, resource, fromMs: this.nowMs });
    this.tell(resource, ({ state }) => state.enqueue(ticket));
  }

  /** A message for a queue, which then does what is due. */
  private tell(resource: string, change: (line: { state: QueueState; inheritance: Inheritance }) => void) {
    const line = this.lines.get(resource) ?? {
      state: new QueueState(),
      inheritance: new Inheritance(resource),
    };
    this.lines.set(resource, line);
    this.after(MESSAGE_MS, () => {
      change(line);
      this.wake(resource, line.state, line.inheritance);
    });
  }

  private wake(resource: string, state: QueueState, inheritance: Inheritance): void {
    for (const command of state.next(this.nowMs)) {
      if (command.do === 'probe') {
        const isHeld = this.permits.has(`${resource}:${command.slot}`);
        this.tell(resource, () => state.probed(command.slot, isHeld, this.nowMs));
      } else if (command.do === 'offer') {
        this.after(MESSAGE_MS, () => this.claim(resource, command.slot, command.ticket));
      } else if (command.do === 'give-way') {
        this.after(MESSAGE_MS, () => this.giveWay(command.ticket));
      }
    }
    for (const command of inheritance.moves(state, this.nowMs)) {
      if (command.do === 'pass-on') {
        this.tell(command.to, (other) => other.state.inherit(resource, command.priorityKey));
      } else {
        this.tell(command.of, (other) => other.inheritance.asks(resource));
      }
    }
    const dueMs = state.dueMs();
    if (dueMs === Number.POSITIVE_INFINITY) return;
    this.after(dueMs - this.nowMs, () => state.dueMs() <= this.nowMs && this.wake(resource, state, inheritance));
  }

  private claim(resource: string, slot: string, ticket: Ticket): void {
    const { caller } = this.waiting.get(ticket.id) ?? assert.fail('a second turn');
    const address = `${resource}:${slot}`;
    if (this.permits.has(address)) {
      this.tell(resource, ({ state }) => state.missed(ticket, slot));
      return;
    }
    this.waiting.delete(ticket.id);
    this.permits.set(address, `r${++this.made}`);
    if (resource === 'r') {
      const keepsPart = caller.held.some((it) => it.resource === 'r' || wholeOf(it.resource) !== 'r');
      if (!keepsPart) this.checkGivesWay(caller);
      const priorityKey = keepsPart ? this.rankNow(caller) : caller.priorityKey;
      const possession = { fromMs: this.nowMs, priorityKey };
      this.possessions.set(slot, possession);
      this.all.push(possession);
    }
    caller.held.push({ resource, slot });
    if (caller.held.length < caller.wants.length) this.lineUp(caller);
    else this.serve(caller);
  }

  /** It takes its first slot: nobody of a better priority waits for what admits it. */
  private checkGivesWay({ id, priorityKey, held }: Caller): void {
    const admissions = new Set(held.map(({ resource }) => resource));
    for (const { caller, resource, fromMs } of this.waiting.values()) {
      if (!admissions.has(resource) || caller.priorityKey >= priorityKey || fromMs + NEWS_MS >= this.nowMs) continue;
      assert.fail(
        `${id} takes a slot at ${this.nowMs}, and ${caller.id} of a better priority waits for its ${resource}`,
      );
    }
  }

  /** The caller gives back what admits it, and claims that again. */
  private giveWay(ticket: Ticket): void {
    const { caller } = this.waiting.get(ticket.id) ?? assert.fail('nobody gives way');
    this.waiting.delete(ticket.id);
    this.release(caller, ({ resource }) => wholeOf(resource) === 'r');
    this.lineUp(caller);
  }

  private rankNow(caller: Caller): number {
    const kept = new Set(caller.held.map(({ resource }) => resource));
    const behind = [...this.waiting.values()].filter(({ resource }) => kept.has(resource) && resource !== 'r');
    return Math.min(caller.priorityKey, ...behind.map((it) => this.rankNow(it.caller)));
  }

  private serve(caller: Caller): void {
    caller.servedMs = this.nowMs;
    this.release(caller, ({ resource }) => resource === SET);
    this.inUseMs += caller.held.filter(({ resource }) => resource === 'r').length * caller.holdMs;
    this.after(caller.holdMs, () => this.release(caller, () => true));
  }

  private release(caller: Caller, which: (permit: { resource: string }) => boolean): void {
    for (const { resource, slot } of caller.held.filter(which)) {
      const address = `${resource}:${slot}`;
      const runId = this.permits.get(address) ?? assert.fail(`${address} is not held`);
      this.permits.delete(address);
      const possession = resource === 'r' && this.possessions.get(slot);
      if (possession) possession.toMs = this.nowMs;
      this.tell(resource, ({ state }) => state.closing({ slot, runId }));
    }
    caller.held = caller.held.filter((permit) => !which(permit));
  }
}

function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

function several(permits: number): string[] {
  return permits === 1 ? ['r'] : [SET, ...Array.from({ length: permits }, () => 'r')];
}

/** What one wants: a permit; or several; or one of a key, of which one has one at a time. */
function anyWants(random: () => number, keys: number): string[] {
  const kind = random();
  if (kind < 0.7) return ['r'];
  const number = Math.floor(random() * 3);
  return kind < 0.7 + keys ? [keyResource('r', 'xyz'.charAt(number)), 'r'] : several(2 + number);
}

/**
 * Minutes of singles, sets and keys, mixed at random: the same work for one seed.
 * @param keys the part of them that is for keys
 * @returns the part of the slots that was in use
 */
function mixed(seed: number, load: number, keys: number, hasPriorities: boolean): { world: World; inUse: number } {
  const capacity = 4;
  const world = new World({ r: capacity });
  const random = randoms(seed);
  const forMs = 200_000;
  const arrive = () => {
    const wants = anyWants(random, keys);
    const priorityKey = 1 + Math.floor(random() * 5);
    const holdMs = 100 + random() * (HOLD_MS - 100);
    world.acquire(wants, hasPriorities ? priorityKey : 3, holdMs);
    const slotMs = 1.6 * 550; // of the mean caller
    world.after((-Math.log(1 - random()) * slotMs) / capacity / load, arrive);
  };
  arrive();
  world.run(forMs);
  return { world, inUse: world.inUseMs / (forMs * capacity) };
}

test('singles, sets and keys of all priorities: nobody waits long behind work of lower priority, and the slots are in use', () => {
  for (const [seed, load, keys] of [
    [1, 0.7, 0],
    [2, 0.7, 0.1],
    [3, 0.9, 0.1],
    [4, 0.9, 0.2],
    [5, 0.9, 0],
  ] as const) {
    const { world, inUse } = mixed(seed, load, keys, true);
    const without = mixed(seed, load, keys, false).inUse;
    assert.ok(inUse > 0.85 * without, `in use: ${inUse} of the slots; where all have one priority: ${without}`);
    for (const caller of world.callers) {
      const { id, wants, priorityKey } = caller;
      const behindMs = world.behindMs(caller);
      const what = `${id}, which wants ${wants.length} of priority ${priorityKey}, was behind lower ones for ${behindMs} ms`;
      assert.ok(behindMs <= HOLD_MS + 2_000, what);
    }
  }
});

/** A caller of low priority keeps a permit of `kept`, and waits for `r` behind a stream; then an urgent one wants what it keeps. */
function inverted(kept: string, urgentWants: readonly string[]): { behindMs: number } {
  const world = new World({ r: 1, [kept]: 1 });
  const stream = () => {
    world.acquire(['r'], 3, 200);
    world.after(150, stream);
  };
  stream();
  world.run(1_000);
  const low = world.acquire([kept, 'r'], 5, 10);
  world.run(5_000);
  assert.equal(low.servedMs, undefined, 'a stream of higher priority comes first');
  const urgent = world.acquire(urgentWants, 1, 10);
  world.run(10_000);
  return { behindMs: (urgent.servedMs ?? Number.POSITIVE_INFINITY) - urgent.sinceMs };
}

test('who keeps a permit of a key, of another resource, or of the accumulator has the priority of those who wait for it', () => {
  const key = keyResource('r', 'acme');
  assert.ok(inverted(key, [key, 'r']).behindMs < 1_000, 'the key');
  assert.ok(inverted('a', ['a']).behindMs < 4_000, 'another resource, of which the queue asks again after a while');
});

test('a stream of the highest priority does not stop a set that keeps a part, however low its own', () => {
  const world = new World({ r: 4 });
  for (const holdMs of [500, 800, 3_000, 3_000]) world.acquire(['r'], 3, holdMs);
  const set = world.acquire(several(4), 5, 500);
  const stream = () => {
    world.acquire(['r'], 1, 500);
    world.after(100, stream); // more than the slots can bear
  };
  world.after(1_500, stream);
  world.run(10_000);
  const waitedMs = (set.servedMs ?? Number.POSITIVE_INFINITY) - set.sinceMs;
  assert.ok(waitedMs < 4_000, `served after ${waitedMs} ms, when the last two of the first holders have ended`);
});

test('the queue asks once for a ticket that gives way, and its next run does not ask again', () => {
  const admitted = { waiter: { workflowId: 'w', runId: 'r' }, slots: 1, sinceMs: 0, inherits: [SET], givesWay: true };
  const first = new QueueState();
  first.enqueue({ ...admitted, id: 'first', priorityKey: 1 });
  assert.deepEqual([...new Inheritance('r').moves(first, 0)], [], 'nobody comes before it');
  const state = new QueueState();
  state.enqueue({ ...admitted, id: 't' });
  const inheritance = new Inheritance('r');
  assert.ok(inheritance.owesWord(state));
  assert.deepEqual([...inheritance.moves(state, 0)], [{ do: 'ask-priority', of: SET }]);
  assert.ok(!inheritance.owesWord(state));
  assert.deepEqual([...inheritance.moves(state, 9e9)], []);
  const next = new QueueState(JSON.parse(JSON.stringify(state.view())));
  assert.deepEqual([...new Inheritance('r', next.inheriting()).moves(next, 9e9)], []);
});

test('a queue asks again as long as a better priority waits behind its caller, and ever more rarely', () => {
  const inherits = ['a'];
  const low: Ticket = {
    id: 'low',
    waiter: { workflowId: 'w', runId: 'r' },
    slots: 1,
    sinceMs: 0,
    inherits,
    priorityKey: 5,
  };
  const urgent: Ticket = {
    ...low,
    id: 'urgent',
    waiter: { workflowId: 'u', runId: 'r' },
    inherits: undefined,
    priorityKey: 1,
  };
  const state = new QueueState();
  for (const ticket of [low, urgent]) state.enqueue(ticket);
  const inheritance = new Inheritance('r');
  const askedAtMs: number[] = [];
  for (let nowMs = 0; nowMs <= 60_000; nowMs += 100)
    if ([...inheritance.moves(state, nowMs)].length > 0) askedAtMs.push(nowMs);
  const pausesMs = askedAtMs.slice(1).map((atMs, nth) => atMs - (askedAtMs[nth] ?? 0));
  assert.deepEqual([askedAtMs[0], pausesMs[0]], [0, 1_000]);
  assert.ok((pausesMs.at(-1) ?? 0) > 5_000 && askedAtMs.length < 25, askedAtMs.join(' '));
});

test('a queue that has ended is told no more, but for that of the resource to which a key admits', () => {
  const key = keyResource('r', 'acme');
  const inheritance = new Inheritance(key);
  inheritance.asks('other');
  const line = (bestPriority: number) => ({ bestPriority, inheriting: () => [] });
  const told = (bestPriority: number) =>
    [...inheritance.moves(line(bestPriority), 0)].map((command) => command.do === 'pass-on' && command.to).sort();
  assert.deepEqual(told(5), ['other', 'r']);
  for (const of of ['other', 'r']) inheritance.gone(of);
  assert.deepEqual(told(4), ['r'], 'it may begin to run at any time');
  inheritance.asks('other');
  assert.deepEqual(told(4), ['other'], 'it has asked again');
});
