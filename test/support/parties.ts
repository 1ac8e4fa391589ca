import { setTimeout as delay } from 'node:timers/promises';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { type ClientAcquireOptions, type Permit, PermitLostError } from '../../src/client';
import { contract, type Driver } from './drivers';
import { startPreemptible, stepsOf, untilStep } from './preemptible-holders';
import type { PreemptibleInput, Step } from './preemption-workflows';
import { clientOf } from './sets';
import { eventually, type Temporal } from './temporal';
import * as workflows from './workflows';

/** A holder whose permit others may take. */
export interface Party {
  /** Waits until it has come to that step for so many times. */
  until(step: Step['step'], times?: number): Promise<Step>;
  /** All steps that it has come to. */
  steps(): Promise<string[]>;
  finish(): Promise<void>;
  /** What its function gave, or the name of the error with which it failed; of a lost permit also how. */
  end(): Promise<string>;
}

type StartParty = (input: PreemptibleInput) => Promise<Party>;

/** As `contract`, with what starts a holder of the driver's kind and waits until it holds. */
export function partyContract(
  temporal: Temporal,
  name: string,
  body: (driver: Driver, startParty: StartParty) => Promise<void>,
): void {
  contract(temporal, name, async (driver) => {
    const parties: (Party & { abandon(): Promise<void> })[] = [];
    try {
      await body(driver, async (input) => {
        const party =
          driver.name === 'in a client'
            ? new ClientParty(temporal, input)
            : new WorkflowParty((await startPreemptible(temporal, input)).handle);
        parties.push(party);
        await party.until('holds');
        return party;
      });
    } catch (error) {
      // All at once: a party may wait for what a caller of the driver holds.
      await Promise.all([driver.abandon(), ...parties.map((party) => party.abandon())]);
      throw error;
    }
  });
}

class WorkflowParty implements Party {
  constructor(private readonly handle: WorkflowHandle<typeof workflows.preemptible>) {}

  until(step: Step['step'], times?: number): Promise<Step> {
    return untilStep(this.handle, step, times);
  }

  steps(): Promise<string[]> {
    return stepsOf(this.handle);
  }

  finish(): Promise<void> {
    return this.handle.signal(workflows.finish);
  }

  async end(): Promise<string> {
    try {
      return await this.handle.result();
    } catch (error) {
      if (!(error instanceof WorkflowFailedError && error.cause instanceof ApplicationFailure)) throw error;
      const { type, details } = error.cause;
      return type === 'PermitLostError' ? `${type}: ${(details?.[0] as { how?: string })?.how}` : `${type}`;
    }
  }

  async abandon(): Promise<void> {
    await this.handle.terminate().catch(() => undefined);
  }
}

/** What the Workflow `preemptible` does, in a client. */
class ClientParty implements Party {
  private readonly log: Step[] = [];
  private readonly finished = new AbortController();
  private readonly ended: Promise<string>;

  constructor(
    temporal: Temporal,
    private readonly input: PreemptibleInput,
  ) {
    this.ended = this.hold(temporal).catch((error: Error) =>
      error instanceof PermitLostError ? `${error.name}: ${error.how}` : error.name,
    );
  }

  private async hold(temporal: Temporal): Promise<string> {
    const { resource, semaphore, acquire, onPreempted, body } = this.input;
    const pool = clientOf(temporal, resource, semaphore);
    const run = (permit: Permit) => this.run(permit, body);
    const replace = async (permit: Permit) => {
      this.note('replaced', permit);
      return 'replaced';
    };
    for (let work = run; ; work = onPreempted === 'again' ? run : replace) {
      try {
        return await pool.withPermit(work, acquire as ClientAcquireOptions);
      } catch (error) {
        if (!(onPreempted && error instanceof PermitLostError && error.how === 'preempted')) throw error;
      }
    }
  }

  private note(step: Step['step'], permit?: Permit): void {
    this.log.push({ step, slot: permit?.slot, runId: permit?.runId });
  }

  private async run(permit: Permit, body: PreemptibleInput['body']): Promise<string> {
    this.note('holds', permit);
    if (body === 'checkpoints') return await this.passCheckpoints(permit);
    if (body === 'yielding') {
      const wait = async () => {
        this.note('yielded');
        await aborted(this.finished.signal);
      };
      await permit.yield(wait);
      this.note('back', permit);
      return 'back';
    }
    void permit.preempted.then(() => this.note('told', permit));
    await aborted(body === 'stubborn' ? this.finished.signal : AbortSignal.any([this.finished.signal, permit.signal]));
    if (body === 'stubborn' || !permit.signal.aborted) return 'finished';
    await permit.preempted;
    this.note('stopped', permit);
    if (body === 'finishing') return 'returned';
    throw permit.signal.reason;
  }

  private async passCheckpoints(permit: Permit): Promise<string> {
    while (!this.finished.signal.aborted) {
      await delay(100);
      const { runId } = permit;
      await permit.checkpoint();
      if (permit.runId !== runId) this.note('back', permit);
    }
    return 'finished';
  }

  async until(step: Step['step'], times = 1): Promise<Step> {
    return await eventually(async () => {
      const found = this.log.filter((it) => it.step === step);
      if (found.length < times) throw new Error(`not yet ${times} times "${step}": ${JSON.stringify(this.log)}`);
      return found[times - 1] as Step;
    });
  }

  async steps(): Promise<string[]> {
    return this.log.map(({ step }) => step);
  }

  async finish(): Promise<void> {
    this.finished.abort();
  }

  async end(): Promise<string> {
    return await this.ended;
  }

  async abandon(): Promise<void> {
    this.finished.abort();
    await this.ended;
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
