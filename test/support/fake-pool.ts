import type { LineMessage, Offer, Place, Surroundings } from '../../src/shared/acquirer';
import { FakeClock } from './fake-clock';

/** How a pool behaves over time, in milliseconds from the start. */
export interface PoolScript {
  /** From when each slot of the acquirer is free. Infinity: never. */
  freeAtMs: readonly number[];
  /** Whether somebody waits when the acquirer comes. */
  hasLine?: boolean;
  /** Until when the queue answers and sends what it has to send. */
  queueDiesAtMs?: number;
  /** What the queue sends by itself. A number is the index of an offered slot; from the count on, one that was added. */
  words?: readonly { atMs: number; word: number | 'full' | 'superseded' | 'refused' | 'stuck' | 'waiting' }[];
  /** This claim, counted from 0, fails. */
  failingClaim?: number;
  /** How long the queue takes to take a ticket. @default 0 */
  takesMs?: number;
  /** Somebody else asks on the acquirer's behalf. */
  cannotAsk?: boolean;
}

export type Deed =
  | { did: 'claim'; atMs: number; untilMs: number; slot: string; offer?: Offer; won: boolean }
  | { did: 'join' | 'enter' | 'ask' | 'missed' | 'served' | 'leave'; atMs: number }
  | { did: 'hear'; atMs: number; word: LineMessage | undefined };

const CLAIM_MS = 5;
const ANSWER_MS = 20;

/** The surroundings of one acquirer on a fake clock. It writes down what the acquirer does; it judges nothing. */
export class FakePool implements Surroundings<string> {
  readonly deeds: Deed[] = [];
  private readonly mail: LineMessage[] = [];
  private wake: () => void = () => undefined;
  private claims = 0;
  private seed: number;

  constructor(
    private readonly script: PoolScript,
    seed = 1,
    /** Several pools may share one. */
    readonly clock = new FakeClock(),
  ) {
    this.seed = seed;
    for (const { atMs, word } of script.words ?? []) {
      const said = typeof word === 'number' ? { slot: String(word), queueId: 'permit-queue:pool' } : word;
      if (atMs < this.diesAtMs) void this.post(said, atMs);
    }
  }

  get slots(): string[] {
    return this.script.freeAtMs.map((_, index) => String(index));
  }

  nowMs(): number {
    return this.clock.nowMs;
  }

  /** A linear congruence: the same luck for the same seed. */
  random(): number {
    this.seed = (this.seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return this.seed / 2 ** 31;
  }

  async claim(slot: string, offer?: Offer): Promise<string | undefined> {
    const number = this.claims++;
    const deed = {
      did: 'claim' as const,
      atMs: this.nowMs(),
      untilMs: Number.POSITIVE_INFINITY,
      slot,
      offer,
      won: false,
    };
    this.deeds.push(deed);
    await this.clock.sleep(CLAIM_MS);
    deed.untilMs = this.nowMs();
    if (number === this.script.failingClaim) throw new Error('cancelled');
    deed.won = (this.script.freeAtMs[Number(slot)] ?? 0) <= this.nowMs();
    return deed.won ? slot : undefined;
  }

  place(): Place {
    const note = (did: 'join' | 'enter' | 'ask' | 'missed' | 'served' | 'leave') => {
      this.deeds.push({ did, atMs: this.nowMs() });
    };
    const taken = async () => {
      if (this.script.takesMs) await this.clock.sleep(this.script.takesMs);
    };
    const ask = async () => {
      note('ask');
      await taken();
      if (this.nowMs() < this.diesAtMs) void this.post('waiting', this.nowMs() + ANSWER_MS);
    };
    return {
      join: async () => {
        note('join');
        await taken();
        return this.script.hasLine ?? false;
      },
      enter: async () => {
        note('enter');
        await taken();
      },
      ...(this.script.cannotAsk ? {} : { ask }),
      next: async (withinMs) => {
        if (this.mail.length === 0) {
          const mail = new Promise<void>((resolve) => {
            this.wake = resolve;
          });
          await Promise.race([mail, this.clock.sleep(withinMs)]);
        }
        const word = this.mail.shift();
        this.deeds.push({ did: 'hear', atMs: this.nowMs(), word });
        return word;
      },
      missed: async () => note('missed'),
      served: () => note('served'),
      leave: async () => note('leave'),
    };
  }

  private get diesAtMs(): number {
    return this.script.queueDiesAtMs ?? Number.POSITIVE_INFINITY;
  }

  private async post(word: LineMessage, atMs: number): Promise<void> {
    await this.clock.sleep(atMs - this.nowMs());
    this.mail.push(word);
    this.wake();
  }
}
