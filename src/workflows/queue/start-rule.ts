import { START_INTERVAL_MS } from '../../shared/check';
import type { ClosingNotice } from '../../shared/protocol';
import { setLast } from '../../shared/set-last';

/** Where the rule seems to hold, the turn of this number tries it, and then each third as often. */
const FIRST_TRIAL = 16;

/** The server keeps a start that it refuses, and tries again. One claim alone has come through after this time. */
const REFUSED_MS = 3_000;

/** Two starts so soon after each other disprove the rule. The server tells the time of a start a little earlier than it checks it. */
const DISPROOF_MS = START_INTERVAL_MS / 2;

/** The queue remembers the last start of so many slots. */
const MAX_STARTS = 2_000;

/** How a turn is given. */
export interface TurnTerms {
  /** Its permit is to keep the slot for the interval. */
  paced: boolean;
  /** So much later than otherwise the turn is overdue. */
  laterMs: number;
}

/**
 * Whether the server starts one Workflow ID only once a second, as Temporal Cloud does, and a server with
 * `history.enableWorkflowIdReuseStartTimeValidation`. A start that it refuses hangs there for seconds, with all claims of the slot
 * beside it. So a slot rests, or its permit keeps it, until the next start may succeed: a running permit refuses others at once.
 *
 *     unknown --a claim hung--> holds --a permit of the slot started much sooner--> does not hold, for good
 *        '-------------- a permit of the slot started much sooner ------------------^
 *
 * A slow machine makes claims slow, too. So now and then a turn tries the rule: its permit and its slot keep no interval.
 */
export class StartRule {
  /** When the last permit of a slot started that the queue has heard of. */
  private readonly startedAtMs = new Map<string, number>();
  /** Slots whose last turn was a trial. */
  private readonly trials = new Set<string>();
  private turns = 0;
  private nextTrial = FIRST_TRIAL;

  /** @param verdict whether the rule holds; `undefined`: nothing is known */
  constructor(private verdict: boolean | undefined) {}

  get holds(): boolean {
    return this.verdict === true;
  }

  /** A permit that closes tells when it started, and whether its claim hung. */
  closing({ slot, startedAtMs, kept }: ClosingNotice): void {
    if (startedAtMs === undefined) return;
    const lastMs = this.lastStartMs(slot);
    if (startedAtMs <= lastMs) return; // told twice, or late
    setLast(this.startedAtMs, slot, startedAtMs, MAX_STARTS);
    if (startedAtMs - lastMs < DISPROOF_MS) this.verdict = false;
    else if (kept) this.verdict ??= true;
  }

  /** Until when a claim of the free slot would hang. */
  restsUntilMs(slot: string): number {
    if (!this.holds || this.trials.has(slot)) return 0;
    return this.lastStartMs(slot) + START_INTERVAL_MS;
  }

  /** The slot is offered now. A claim that hangs is no silence of its waiter: others would come first. */
  turn(slot: string, nowMs: number): TurnTerms {
    const isEarly = nowMs < this.lastStartMs(slot) + START_INTERVAL_MS;
    const laterMs = isEarly && this.verdict !== false ? REFUSED_MS : 0;
    this.trials.delete(slot);
    if (!this.holds) return { paced: false, laterMs };
    if (++this.turns < this.nextTrial) return { paced: true, laterMs: laterMs + START_INTERVAL_MS };
    this.nextTrial *= 3;
    this.trials.add(slot);
    return { paced: false, laterMs };
  }

  private lastStartMs(slot: string): number {
    return this.startedAtMs.get(slot) ?? Number.NEGATIVE_INFINITY;
  }
}
