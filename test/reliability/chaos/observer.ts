import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { FencingToken, MemoryFence, StaleTokenError } from '@/fencing';
import type { Acquire, Body, Death, FaultEvent, Order, Outage, Outcome, Write } from './record';

/** How often an actor says that it runs; one that has not for so long had no processor. */
export const TICK_MS = 250;
const STARVED_MS = 1_000;

/** What an acquirer says of itself as it asks. */
type Asked = Omit<Acquire, 'id' | 'askedMs' | 'settledMs' | 'outcome' | 'error'>;

/** A line from an actor. Shell commands send them too, so they are as plain as can be. */
export type Message =
  | ({ do: 'ask'; acquire: string } & Asked)
  | { do: 'write'; acquire: string; token: string }
  /** `body` tells the attempts of an activity apart. */
  | { do: 'begin'; acquire: string; token: string; body?: string }
  | { do: 'end'; acquire: string; body?: string }
  | { do: 'settle'; acquire: string; outcome: Outcome; error?: string }
  | { do: 'fault'; kind: string }
  /** This actor runs. */
  | { do: 'tick'; actor: string };

/**
 * The protected resource, and the one witness of a run. Actors tell it, over a connection that no fault touches, when they ask,
 * work and end. Each write carries a fencing token, which the library's own guard admits or refuses.
 *
 * A body's times are sound for the check of safety: its begin is stamped after the holder knew of its permit, and its end before
 * the holder gives it back, for the holder awaits the answer. A process that dies ends its bodies: its connection closes.
 */
export class Observer {
  readonly acquires = new Map<string, Acquire>();
  readonly bodies: Body[] = [];
  readonly writes: Write[] = [];
  readonly orders: Order[] = [];
  readonly outages: Outage[] = [];
  readonly notCurrent: Outage[] = [];
  readonly faults: FaultEvent[] = [];
  readonly deaths: Death[] = [];
  private readonly open = new Map<string, { body: Body; socket: Socket }>();
  /** When each actor last said that it runs, and over which connection. */
  private readonly ticks = new Map<string, { atMs: number; socket: Socket | undefined }>();
  private readonly ticking = setInterval(() => this.ticked('*'), TICK_MS).unref();
  private readonly fences = new Map<string, MemoryFence>();
  private readonly sockets = new Set<Socket>();
  private readonly server: Server;

  private constructor() {
    this.server = createServer((socket) => this.serve(socket));
  }

  static async start(): Promise<Observer> {
    const observer = new Observer();
    observer.server.listen(0, '127.0.0.1');
    await once(observer.server, 'listening');
    return observer;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  stop(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    clearInterval(this.ticking);
  }

  /** The first acquire of a set has the set's name. */
  asked({ id, set, ...rest }: Asked & { id: string }): void {
    const askedMs = this.acquires.get(set ?? '')?.askedMs ?? Date.now();
    this.acquires.set(id, { ...rest, id, askedMs, set });
  }

  /** The first outcome counts: an acquire whose permit was lost later was served. */
  settled(id: string, outcome: Outcome, error?: string): void {
    const acquire = this.acquires.get(id);
    if (!acquire || acquire.outcome) return;
    Object.assign(acquire, { settledMs: Date.now(), outcome, ...(error !== undefined && { error }) });
  }

  /** All that this process waited for has ended with it. */
  killed(actor: string): void {
    for (const acquire of this.acquires.values()) if (acquire.actor === actor) this.settled(acquire.id, 'killed');
  }

  /** Acquires that wait. */
  get waiting(): Acquire[] {
    return [...this.acquires.values()].filter(({ outcome }) => outcome === undefined);
  }

  get openBodies(): number {
    return this.open.size;
  }

  /** How many holders have been seen at work. */
  get grants(): number {
    return new Set(this.bodies.map(({ runId }) => runId)).size;
  }

  private serve(socket: Socket): void {
    this.sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.closed(socket));
    const lines = createInterface(socket);
    lines.on('error', () => socket.destroy()); // a reader hands its socket's errors on
    lines.on('line', (line) => {
      void this.answer(socket, line).catch(() => socket.destroy()); // the last line of a killed process may be half a line
    });
  }

  private async answer(socket: Socket, line: string): Promise<void> {
    const { n, ...message } = JSON.parse(line) as Message & { n?: number };
    const answer = await this.heed(message, socket);
    if (!socket.destroyed) socket.write(n === undefined ? `${answer}\n` : `${JSON.stringify({ n, answer })}\n`);
  }

  private async heed(message: Message, socket: Socket): Promise<string> {
    if (message.do === 'fault') this.faults.push({ kind: message.kind, atMs: Date.now() });
    else if (message.do === 'tick') this.ticked(message.actor, socket);
    else if (message.do === 'ask') {
      const { do: _, acquire, ...asked } = message;
      this.asked({ ...asked, id: acquire });
    } else if (message.do === 'settle') this.settled(message.acquire, message.outcome, message.error);
    else if (message.do === 'begin') this.begin(message, FencingToken.parse(message.token), socket);
    else if (message.do === 'write')
      return (await this.write(FencingToken.parse(message.token))) ? 'admitted' : 'stale';
    else this.end(message.body ?? message.acquire);
    return 'ok';
  }

  /** A process that got no processor was stopped, whoever did it: a busy machine is a fault too. */
  private ticked(actor: string, socket?: Socket): void {
    const before = this.ticks.get(actor);
    const atMs = Date.now();
    this.ticks.set(actor, { atMs, socket });
    if (before?.socket === socket && before && atMs - before.atMs > STARVED_MS) {
      this.faults.push({ kind: 'stop-by-the-machine', target: actor, atMs: before.atMs, healedMs: atMs });
    }
  }

  private begin(
    { acquire, body: name = acquire }: { acquire: string; body?: string },
    { resource, slot, runId }: FencingToken,
    socket: Socket,
  ): void {
    this.settled(acquire, 'granted');
    const body: Body = { acquire, resource, slot, runId, beganMs: Date.now() };
    this.bodies.push(body);
    this.open.set(name, { body, socket });
  }

  private end(name: string): void {
    const { body } = this.open.get(name) ?? {};
    if (body) body.endedMs = Date.now();
    this.open.delete(name);
  }

  private closed(socket: Socket): void {
    this.sockets.delete(socket);
    for (const [name, { body, socket: own }] of this.open) {
      if (own !== socket) continue;
      this.end(name);
      body.died = true;
    }
  }

  private async write(token: FencingToken): Promise<boolean> {
    const { resource, slot, runId } = token;
    const fence = this.fences.get(resource) ?? new MemoryFence(resource);
    this.fences.set(resource, fence);
    const note = (admitted: boolean) => this.writes.push({ atMs: Date.now(), resource, slot, runId, admitted });
    try {
      await fence.transaction(token, async () => note(true)); // noted in the order in which they were carried out
      return true;
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
      note(false);
      return false;
    }
  }
}
