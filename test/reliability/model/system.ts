import assert from 'node:assert/strict';
import { Acquirer, type LineMessage, type Offer, type Place, type Surroundings } from '../../../src/shared/acquirer';
import type { QueueView, Ticket } from '../../../src/shared/protocol';
import { slotNames } from '../../../src/shared/slots';
import { QueueState } from '../../../src/workflows/queue/queue-state';
import { SetCaller } from './set-caller';

/** What is explored: everything that these counts allow, in every order. */
export interface Bounds {
  slots: number;
  acquirers: number;
  /** How many permits each of them wants, all or none. @default 1 */
  sizes?: readonly number[];
  /** How often each fault happens at most. */
  faults: Partial<Record<Fault, number>>;
  /** How often time passes while a message is under way: so a message may be late by any timer. */
  delays: number;
  /** Newcomers do not try a slot before they ask for a line. */
  strictOrder?: boolean;
}

export type Fault =
  | 'kill an acquirer'
  | 'cancel an acquirer'
  | 'terminate a permit'
  | 'terminate the queue'
  | 'stop the queue' // it runs, and no worker serves it
  | 'continue as new'
  | 'repeat a turn';

/** One thing that may happen next. */
interface Step {
  readonly name: string;
  readonly isDelay?: boolean;
  readonly fault?: Fault;
  run(): void;
}

interface Permit {
  readonly runId: string;
  readonly owner: Actor;
  watched: boolean;
  /** It sends its notices, and then it closes. */
  isEnding: boolean;
}

interface Queue {
  state: QueueState;
  /** Accepted by the server, and not seen by the queue's code yet. */
  readonly inbox: { name: string; handle: () => void }[];
  readonly unanswered: Map<string, Ticket>;
  /** Until when it stays although nobody waits. */
  lingersUntilMs: number;
  isStuck: boolean;
}

/** As the acquirers have it: how long they wait for word before they check. */
export const RECHECK_MS = 10_000;
const LINGER_MS = 2_000;
const LONG_LINGER_MS = 30 * 60_000;

/**
 * The real {@link Acquirer} and the real queue state, with the server between them: permits, messages under way, clocks and
 * faults. Nothing happens by itself: {@link steps} lists what may happen next, and whoever explores chooses. A message is
 * under way until it is chosen, so that messages overtake each other in every way.
 *
 * It models the shells around both: `wait-queue` and `carry-out`, `queue-place`, `permit-slot` and its end notices.
 */
export class System {
  nowMs = 0;
  readonly permits = new Map<string, Permit>();
  private readonly actors: Actor[] = [];
  private readonly sets: SetCaller[] = [];
  /** The holder of the one permit that allows to keep a part; a pool of its own, which this model takes for granted. */
  accumulator: SetCaller | undefined;
  private queue: Queue | undefined;
  /** Messages under way: probes, turns, their answers. */
  private underWay: { name: string; of?: Queue; land: () => void }[] = [];
  private readonly faultsLeft: Map<Fault, number>;
  private delaysLeft: number;
  private runs = 0;

  constructor(private readonly bounds: Bounds) {
    this.faultsLeft = new Map(Object.entries(bounds.faults) as [Fault, number][]);
    this.delaysLeft = bounds.delays;
    for (let number = 0; number < bounds.acquirers; number++) {
      const size = bounds.sizes?.[number] ?? 1;
      if (size === 1) this.actors.push(new Actor(this, number, bounds));
      else this.sets.push(new SetCaller(this, number, size, (part, held) => this.addActor(number, part, held)));
    }
  }

  /** One part of a set: it has the age of its caller, and does not try what that holds. */
  private addActor(number: number, part: SetCaller, held: readonly string[]): Actor {
    const actor = new Actor(this, number, this.bounds, { part, held });
    this.actors.push(actor);
    return actor;
  }

  /** Until every acquirer waits for something outside itself. */
  async calm(): Promise<void> {
    for (let turns = 0; [...this.actors, ...this.sets].some(({ isThinking }) => isThinking); turns++) {
      assert.ok(turns < 1_000, 'an acquirer waits for nothing that is modelled');
      await null;
    }
    if (this.queue) this.linger(this.queue);
  }

  /** All that may happen now. */
  steps(): Step[] {
    const steps = [...this.protocolSteps(), ...this.faultSteps()];
    const isBusy = steps.some(({ fault }) => !fault);
    const delay = this.delay();
    // With nothing else to do time passes anyway.
    if (delay && (!isBusy || this.delaysLeft > 0)) steps.push({ ...delay, isDelay: isBusy });
    return steps;
  }

  take(step: Step): void {
    if (step.fault) this.faultsLeft.set(step.fault, (this.faultsLeft.get(step.fault) ?? 0) - 1);
    if (step.isDelay) this.delaysLeft--;
    step.run();
  }

  /** Whatever is needed to tell two situations apart. Times count from now. */
  key(): string {
    const { queue } = this;
    return JSON.stringify([
      [...this.permits]
        .map(([slot, { owner, watched, isEnding }]) => [slot, owner.ticket.id, watched, isEnding])
        .sort(),
      queue && [
        this.relative(queue.state),
        queue.inbox.map(({ name }) => name),
        [...queue.unanswered.keys()],
        queue.isStuck,
        queue.lingersUntilMs === Number.POSITIVE_INFINITY || queue.lingersUntilMs - this.nowMs,
      ],
      this.underWay.map(({ name, of }) => [name, of === undefined || of === queue]).sort(),
      this.actors.filter(({ part }) => !part).map((actor) => actor.key()),
      this.sets.map((set) => set.key()),
      [...this.faultsLeft],
      this.delaysLeft,
    ]);
  }

  /** What must hold in every situation. */
  check(): void {
    for (const actor of this.actors) {
      const held = [...this.permits.values()].filter(({ owner, isEnding }) => owner === actor && !isEnding);
      assert.ok(held.length <= 1, `acquirer ${actor.number} holds ${held.length} permits`);
      assert.ok(actor.fate !== 'gone' || held.length === 0, `acquirer ${actor.number} has gone, and left a permit`);
      actor.check();
    }
    for (const set of this.sets) {
      const held = [...this.permits.values()].filter(({ owner, isEnding }) => owner.part === set && !isEnding).length;
      set.check(held);
    }
    if (!this.queue) return;
    const { tickets, slots } = this.queue.state.view();
    const turns = slots.flatMap(([, state]) => (state.at === 'offered' ? [state.ticketId] : []));
    assert.equal(new Set(turns).size, turns.length, 'Q1: one ticket has two turns');
    if (this.queue.inbox.length > 0 || tickets.every(({ id }) => turns.includes(id))) return;
    for (const slot of slotNames(this.bounds.slots)) {
      const at = new Map(slots).get(slot)?.at;
      assert.ok(at === 'held' || at === 'offered' || at === 'probing', `Q2: slot ${slot} idles, and somebody waits`);
    }
  }

  /**
   * No more faults; messages arrive, holders release, time passes: then everyone must be served, and nothing be left.
   * @returns how long that took, in milliseconds
   */
  async settle(): Promise<number> {
    const startMs = this.nowMs;
    let servedMs = startMs;
    for (let count = 0; count < 2_000; count++) {
      const [first] = this.protocolSteps();
      const step = first ?? this.delay();
      if (!step) break;
      step.run();
      await this.calm();
      this.check();
      if ([...this.actors, ...this.sets].some(({ fate }) => fate === 'waits')) servedMs = this.nowMs;
    }
    for (const { fate, number } of [...this.actors, ...this.sets])
      assert.notEqual(fate, 'waits', `L3: acquirer ${number} is never served`);
    assert.equal(this.accumulator, undefined, 'L1: the permit of the accumulator is left');
    assert.equal(this.permits.size, 0, 'L1: a permit is left');
    assert.ok(!this.queue || this.queue.isStuck, 'the queue never ends');
    return servedMs - startMs;
  }

  /** A claim reaches the server. */
  claim(actor: Actor, slot: string, watched: boolean): boolean {
    if (this.permits.has(slot)) return false;
    this.permits.set(slot, { runId: `run ${++this.runs}`, owner: actor, watched, isEnding: false });
    return true;
  }

  /** A holder is done, or its lease ends. */
  end(actor: Actor): void {
    for (const permit of this.permits.values()) if (permit.owner === actor) permit.isEnding = true;
  }

  get hasQueue(): boolean {
    return this.queue !== undefined;
  }

  /** The server accepts a message for the queue. `false` when there is none. */
  tellQueue(name: string, handle: (queue: Queue) => void): boolean {
    const { queue } = this;
    queue?.inbox.push({ name, handle: () => handle(queue) });
    return queue !== undefined;
  }

  startQueue(): void {
    this.queue = {
      state: new QueueState(),
      inbox: [],
      unanswered: new Map(),
      lingersUntilMs: Number.POSITIVE_INFINITY,
      isStuck: false,
    };
  }

  private protocolSteps(): Step[] {
    const steps: Step[] = [...this.actors, ...this.sets].flatMap((actor) => actor.steps());
    for (const [slot, permit] of this.permits) steps.push(...this.permitSteps(slot, permit));
    const { queue } = this;
    if (queue && queue.inbox.length > 0 && !queue.isStuck)
      steps.push({ name: 'queue', run: () => this.wakeQueue(queue) });
    for (const message of this.underWay) {
      steps.push({
        name: message.name,
        run: () => {
          this.underWay = this.underWay.filter((other) => other !== message);
          message.land();
        },
      });
    }
    return steps;
  }

  private permitSteps(slot: string, permit: Permit): Step[] {
    const { owner } = permit;
    if (!permit.isEnding) {
      if (owner.fate === 'dead') return [{ name: `lease of ${slot} ends`, run: () => this.end(owner) }];
      const mayRelease = owner.fate === 'holds' && !owner.part;
      return mayRelease ? [{ name: `${owner.number} releases`, run: () => owner.release() }] : [];
    }
    const close = () => {
      this.permits.delete(slot);
      owner.closed();
    };
    if (!permit.watched) return [{ name: `${slot} closes`, run: close }];
    const notify = () => {
      permit.watched = false; // a watch that comes from now on is answered anew
      this.tellClosing(slot, permit);
    };
    return [{ name: `${slot} notifies`, run: notify }];
  }

  private tellClosing(slot: string, { owner, runId }: Permit): void {
    this.tellQueue(`closing ${slot} ${owner.ticket.id}`, ({ state }) => state.closing({ slot, runId }));
  }

  private faultSteps(): Step[] {
    const steps: Step[] = [];
    const may = (fault: Fault, of: string, run: () => void) => {
      if ((this.faultsLeft.get(fault) ?? 0) > 0) steps.push({ name: `${fault}: ${of}`, fault, run });
    };
    for (const actor of [...this.actors.filter(({ part }) => !part), ...this.sets]) {
      if (actor.fate !== 'gone' && actor.fate !== 'dead') may('kill an acquirer', `${actor.number}`, () => actor.die());
      if (actor.fate === 'waits') may('cancel an acquirer', `${actor.number}`, () => actor.cancel());
    }
    for (const [slot, permit] of this.permits) {
      const { owner } = permit;
      may('terminate a permit', slot, () => {
        this.permits.delete(slot);
        owner.closed();
        const isHeard = owner.fate !== 'dead'; // also while it waits for the end of what it has released
        owner.lose();
        if (isHeard)
          this.underWay.push({ name: `${owner.number} tells of ${slot}`, land: () => this.tellClosing(slot, permit) });
      });
    }
    const { accumulator } = this;
    if (accumulator) may('terminate a permit', 'the accumulator', () => accumulator.loseAccumulator());
    const { queue } = this;
    if (!queue) return steps;
    may('terminate the queue', '', () => {
      this.queue = undefined;
    });
    if (!queue.isStuck) {
      may('stop the queue', '', () => {
        queue.isStuck = true;
      });
      if (queue.inbox.length === 0 && !this.underWay.some(({ of }) => of === queue))
        may('continue as new', '', () => {
          queue.state = new QueueState(JSON.parse(JSON.stringify(queue.state.view())) as QueueView);
        });
    }
    for (const [slot, state] of queue.state.view().slots) {
      if (state.at === 'offered') may('repeat a turn', slot, () => this.sendTurn(queue, slot, state.ticketId));
    }
    return steps;
  }

  /** Time passes until the next timer rings. */
  private delay(): Step | undefined {
    const { queue } = this;
    const dueMs = Math.min(
      ...this.actors.map((actor) => actor.dueMs),
      queue && !queue.isStuck ? Math.min(queue.state.dueMs(), queue.lingersUntilMs) : Number.POSITIVE_INFINITY,
    );
    if (dueMs === Number.POSITIVE_INFINITY) return undefined;
    const run = () => {
      this.nowMs = Math.max(this.nowMs, dueMs);
      for (const actor of this.actors) if (actor.dueMs <= this.nowMs) actor.ring();
      if (!queue || queue.isStuck) return;
      if (queue.state.dueMs() <= this.nowMs) this.wakeQueue(queue);
      else if (queue.lingersUntilMs <= this.nowMs) this.queue = undefined;
    };
    return { name: 'time passes', run };
  }

  /** One Workflow Task of the queue: as `wait-queue` does it. */
  private wakeQueue(queue: Queue): void {
    for (const { handle } of queue.inbox.splice(0)) handle();
    for (const command of queue.state.next(this.nowMs)) {
      assert.ok(command.do === 'probe' || command.do === 'offer', 'nobody has set anything');
      if (command.do === 'probe') this.sendProbe(queue, command.slot);
      else this.sendTurn(queue, command.slot, command.ticket.id);
    }
    for (const [id, ticket] of queue.unanswered) {
      const waiting = queue.state.ticket(id) !== undefined;
      this.send(queue, `sign of life for ${id}`, () => this.actorOf(ticket).hear(waiting ? 'waiting' : 'full'));
    }
    queue.unanswered.clear();
  }

  /** A queue with nothing to do stays for a while. */
  private linger(queue: Queue): void {
    const isIdle = queue.state.idle && queue.inbox.length === 0 && !this.underWay.some(({ of }) => of === queue);
    if (!isIdle) queue.lingersUntilMs = Number.POSITIVE_INFINITY;
    else if (queue.lingersUntilMs === Number.POSITIVE_INFINITY)
      queue.lingersUntilMs = this.nowMs + (queue.state.awaitsClosing ? LONG_LINGER_MS : LINGER_MS);
  }

  private sendProbe(queue: Queue, slot: string): void {
    this.send(queue, `probe of ${slot}`, () => {
      const permit = this.permits.get(slot);
      if (permit) permit.watched = true;
      const held = permit !== undefined;
      this.answer(queue, `probe of ${slot} ${held} answer`, () => queue.state.probed(slot, held, this.nowMs));
    });
  }

  private sendTurn(queue: Queue, slot: string, ticketId: string): void {
    const actor = this.actors.find(({ ticket }) => ticket.id === ticketId) ?? assert.fail('a turn for nobody');
    this.send(queue, `turn of ${ticketId} for ${slot}`, () => {
      if (actor.fate === 'dead' || actor.fate === 'gone') {
        const handle = () => queue.state.undeliverable(slot, ticketId);
        this.answer(queue, `turn of ${ticketId} for ${slot} answer`, handle);
      } else actor.hear({ slot, queueId: 'queue' });
    });
  }

  private send(of: Queue, name: string, land: () => void): void {
    this.underWay.push({ name, of, land });
  }

  /** The server records an answer in the history of the queue that asked. Nobody hears it when that one has ended. */
  private answer(queue: Queue, name: string, handle: () => void): void {
    this.send(queue, name, () => {
      if (this.queue === queue) queue.inbox.push({ name, handle });
    });
  }

  private actorOf({ id }: Ticket): Actor {
    return this.actors.find(({ ticket }) => ticket.id === id) ?? assert.fail('a word for nobody');
  }

  /** The queue's state with times counted from now. */
  private relative(state: QueueState): unknown {
    const fields = {
      ...state.view(),
      closed: [...(state as unknown as { watch: { lastClosed: Map<string, string> } }).watch.lastClosed],
    };
    const runs = new Map([...this.permits.values()].map(({ runId, owner }) => [runId, owner.ticket.id]));
    return JSON.parse(
      JSON.stringify(fields, (name, value) => {
        if (typeof value === 'number' && name.endsWith('Ms'))
          return name === 'sinceMs' && value < 0 ? value : value - this.nowMs;
        return typeof value === 'string' && value.startsWith('run ') ? (runs.get(value) ?? 'ended') : value;
      }),
    );
  }
}

type Request =
  | {
      kind: 'claim';
      slot: string;
      offer?: Offer;
      won?: true;
      resolve(won: string | undefined): void;
      reject(error: Error): void;
    }
  | { kind: 'tell'; what: string; resolve(): void; run(): void }
  | { kind: 'next'; untilMs: number; resolve(word: LineMessage | undefined): void; reject(error: Error): void };

const CANCELLED = new Error('cancelled');

/** A real acquirer, its place in line, and its end of the wire. */
export class Actor implements Surroundings<string>, Place {
  fate: 'waits' | 'holds' | 'gone' | 'dead' = 'waits';
  readonly ticket: Ticket;
  private readonly acquirer: Acquirer<string>;
  /** For what the acquirer waits. */
  private request: Request | undefined;
  private word: LineMessage | undefined;
  private openOffer: Offer | undefined;
  private inLine = false;
  private hasLeft = false;
  private isCancelled = false;
  /** Where the acquirer's code stands: what it did since it last heard, or since it began. */
  private trail = '';
  /** The set that it is a part of. */
  readonly part: SetCaller | undefined;
  readonly had: Promise<Actor>;
  readonly whenClosed: Promise<void>;
  isClosed = false;
  private tellClosed = () => {};

  constructor(
    private readonly system: System,
    readonly number: number,
    { slots, strictOrder }: Bounds,
    { part, held = [] }: { part?: SetCaller; held?: readonly string[] } = {},
  ) {
    this.part = part;
    this.whenClosed = new Promise((resolve) => {
      this.tellClosed = resolve;
    });
    // Those that came first stand first. Below 0: `relative` leaves it alone.
    this.ticket = {
      id: `t${number}${part ? `.${held.length}` : ''}`,
      waiter: { workflowId: `w${number}`, runId: 'r' },
      slots,
      sinceMs: number - 1_000,
    };
    this.acquirer = new Acquirer(
      {
        slots: slotNames(slots).filter((slot) => !held.includes(slot)),
        deadlineMs: Number.POSITIVE_INFINITY,
        recheckAfterMs: RECHECK_MS,
        firstTries: 2,
        triesBeforeJoin: strictOrder ? 0 : 1,
        triesPerRound: 5,
      },
      this,
    );
    this.had = this.acquirer.acquire().then(
      () => {
        this.become('holds');
        return this;
      },
      (error) => {
        assert.equal(error, CANCELLED);
        this.become('gone');
        throw error;
      },
    );
    this.had.catch(() => undefined);
  }

  get isThinking(): boolean {
    return this.fate === 'waits' && this.request === undefined;
  }

  get dueMs(): number {
    return this.request?.kind === 'next' ? this.request.untilMs : Number.POSITIVE_INFINITY;
  }

  key(): unknown {
    const { fate, request, word, openOffer, inLine, hasLeft, isCancelled, trail } = this;
    if (fate === 'gone' || fate === 'dead') return fate;
    if (fate === 'holds') return [fate, hasLeft];
    const { cursor, rounds, delay } = this.acquirer as unknown as { cursor: number; rounds: number; delay: object };
    const waitsFor = request && [
      request.kind,
      'slot' in request && request.slot,
      'won' in request,
      'what' in request && request.what,
    ];
    const dueMs = this.dueMs === Number.POSITIVE_INFINITY ? null : this.dueMs - this.system.nowMs;
    return [fate, waitsFor, dueMs, word, openOffer, inLine, hasLeft, isCancelled, trail, cursor, rounds % 20, delay];
  }

  check(): void {
    assert.ok(this.fate !== 'holds' || this.openOffer === undefined, 'A3: an offer is open, and nobody uses it');
  }

  steps(): Step[] {
    const { request, number } = this;
    if (!request || request.kind === 'next') return [];
    return [
      {
        name: `${number} ${request.kind} ${'what' in request ? request.what : request.slot}`,
        run: () => this.serve(request),
      },
    ];
  }

  die(): void {
    this.fate = 'dead';
    this.request = undefined;
  }

  cancel(): void {
    this.isCancelled = true;
    if (this.request?.kind === 'next') this.answer(this.request).reject(CANCELLED);
  }

  lose(): void {
    if (this.fate === 'holds') this.fate = 'gone';
    this.part?.lose();
  }

  /** Its permit's run has ended. */
  closed(): void {
    this.isClosed = true;
    this.tellClosed();
  }

  /** The slot that it holds. */
  get slot(): string | undefined {
    for (const [slot, { owner, isEnding }] of this.system.permits) if (owner === this && !isEnding) return slot;
    return undefined;
  }

  release(): void {
    this.fate = 'gone';
    this.system.end(this);
  }

  ring(): void {
    if (this.request?.kind === 'next') this.answer(this.request).resolve(undefined);
  }

  /** A message of the queue reaches this Workflow. */
  hear(word: LineMessage): void {
    if (this.fate === 'dead' || this.fate === 'gone') return;
    const offer = typeof word === 'object' ? word : undefined;
    if (this.hasLeft) {
      if (offer) this.decline(offer.slot);
    } else if (offer || typeof this.word !== 'object') {
      this.word = word;
      if (this.request?.kind === 'next') this.answer(this.request).resolve(this.takeWord());
    }
  }

  // What the acquirer asks of its surroundings.

  nowMs(): number {
    return this.system.nowMs;
  }

  /** The order of the slots: each begins with another one. */
  random(): number {
    return (0.3 + this.number * 0.4) % 1;
  }

  place(): Place {
    return this;
  }

  claim(slot: string, offer?: Offer): Promise<string | undefined> {
    this.trail += offer ? 'o' : 'c';
    return new Promise((resolve, reject) => {
      this.request = { kind: 'claim', slot, offer, resolve, reject };
    });
  }

  async join(): Promise<boolean> {
    let joined = false;
    await this.tell('join', () => {
      joined = this.enqueue(this.ticket);
    });
    return joined;
  }

  async enter(): Promise<void> {
    await this.tell('enter', () => this.lineUp(this.ticket));
  }

  async ask(): Promise<void> {
    await this.tell('ask', () => this.lineUp({ ...this.ticket, answer: true }));
  }

  next(withinMs: number): Promise<LineMessage | undefined> {
    this.trail = 'n';
    if (this.isCancelled) return Promise.reject(CANCELLED);
    if (this.word) return Promise.resolve(this.takeWord());
    return new Promise((resolve, reject) => {
      this.request = { kind: 'next', untilMs: this.system.nowMs + withinMs, resolve, reject };
    });
  }

  async missed(): Promise<void> {
    const slot = this.openOffer?.slot ?? assert.fail('A3: no offer is open');
    this.openOffer = undefined;
    await this.tell('missed', () => {
      this.inLine = true;
      const { ticket } = this;
      if (!this.system.tellQueue(`missed ${ticket.id} ${slot}`, ({ state }) => state.missed(ticket, slot)))
        this.lineUp(ticket);
    });
  }

  served(): void {
    assert.ok(this.openOffer, 'A3: no offer is open');
    this.openOffer = undefined;
    this.inLine = false;
  }

  async leave(): Promise<void> {
    assert.ok(!this.hasLeft, 'A4: it leaves twice');
    this.hasLeft = true;
    const offer = this.openOffer ?? (typeof this.word === 'object' ? this.word : undefined);
    this.openOffer = undefined;
    this.word = undefined;
    if (this.inLine || offer) await this.tell('leave', () => this.decline(offer?.slot));
  }

  private tell(what: string, run: () => void): Promise<void> {
    this.trail += what[0];
    return new Promise((resolve) => {
      this.request = { kind: 'tell', what, resolve, run };
    });
  }

  private serve(request: Request): void {
    if (request.kind === 'tell') {
      request.run();
      this.answer(request).resolve();
    } else if (request.kind === 'claim') this.serveClaim(request);
  }

  /** It lands, and if it wins the answer comes later. A cancelled acquirer gives back what it wins. */
  private serveClaim(request: Request & { kind: 'claim' }): void {
    if (!request.won && this.system.claim(this, request.slot, request.offer !== undefined)) {
      request.won = true;
      return;
    }
    const { won } = request;
    if (this.isCancelled) {
      if (won) this.system.end(this);
      this.answer(request).reject(CANCELLED);
    } else this.answer(request).resolve(won && request.slot);
  }

  private answer<R extends Request>(request: R): R {
    this.request = undefined;
    return request;
  }

  private become(fate: 'holds' | 'gone'): void {
    if (this.fate === 'waits') this.fate = fate;
  }

  private takeWord(): LineMessage | undefined {
    const { word } = this;
    this.word = undefined;
    if (typeof word === 'object') this.openOffer = word;
    return word;
  }

  private lineUp(ticket: Ticket): void {
    if (!this.system.hasQueue) this.system.startQueue();
    this.enqueue(ticket);
  }

  private enqueue(ticket: Ticket): boolean {
    const told = this.system.tellQueue(`enqueue ${ticket.id} ${ticket.answer ?? ''}`, ({ state, unanswered }) => {
      if (!state.enqueue(ticket) || ticket.answer) unanswered.set(ticket.id, ticket);
    });
    this.inLine ||= told;
    return told;
  }

  private decline(slot: string | undefined): void {
    const { id } = this.ticket;
    this.system.tellQueue(`declined ${id} ${slot}`, ({ state }) => state.declined(id));
  }
}
