import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { acquireAll, type Permit, PermitLostError, withPermits } from '../../src/client';
import { currentFencingToken } from '../../src/fencing';
import type { PermitRef } from '../../src/shared/protocol';
import { contract, type Driver, type Held } from './drivers';
import { startOptions, untilAt } from './holders';
import { clientOf } from './sets';
import { eventually, type Temporal } from './temporal';
import { type Given, type Stand, type Use, uses } from './uses';
import * as workflows from './workflows';

/** A caller that does one of the {@link uses}. */
export interface User<T> {
  /** What it holds when it has told; fails when it ends before. */
  holding(): Promise<Held>;
  finish(): Promise<void>;
  /** What it gave, or the error with which it failed. */
  end(): Promise<T>;
}

type StartUser = <Name extends Use>(
  use: Name,
  input: workflows.PoolInput,
  ref?: PermitRef,
) => Promise<User<Given<Name>>>;

/** As `contract`, with what starts a user of the driver's kind. */
export function userContract(
  temporal: Temporal,
  name: string,
  body: (driver: Driver, startUser: StartUser) => Promise<void>,
): void {
  contract(temporal, name, async (driver) => {
    const users: { abandon(): Promise<void> }[] = [];
    try {
      await body(driver, async (use, input, ref) => {
        const user =
          driver.name === 'in a client'
            ? new ClientUser(temporal, use, input, ref)
            : await WorkflowUser.start(temporal, use, input, ref);
        users.push(user);
        return user as User<Given<typeof use>>;
      });
    } catch (error) {
      await Promise.all([driver.abandon(), ...users.map((user) => user.abandon())]);
      throw error;
    }
  });
}

class WorkflowUser implements User<unknown> {
  static async start(temporal: Temporal, use: Use, input: workflows.PoolInput, ref?: PermitRef): Promise<WorkflowUser> {
    const options = startOptions(temporal, use);
    return new WorkflowUser(
      await temporal.client.workflow.start(workflows.user, { ...options, args: [use, input, ref] }),
    );
  }

  private constructor(private readonly handle: WorkflowHandle<typeof workflows.user>) {}

  async holding(): Promise<Held> {
    return await untilAt(this.handle, 'holding');
  }

  async finish(): Promise<void> {
    await this.handle.signal(workflows.finish);
  }

  async end(): Promise<unknown> {
    return await this.handle.result().catch((error: unknown) => {
      throw error instanceof WorkflowFailedError ? error.cause : error;
    });
  }

  async abandon(): Promise<void> {
    await this.handle.terminate().catch(() => undefined);
  }
}

class ClientUser implements User<unknown> {
  private held: Held | undefined;
  private readonly finished = new AbortController();
  private readonly ended: Promise<unknown>;

  constructor(temporal: Temporal, use: Use, { resource, semaphore }: workflows.PoolInput, ref?: PermitRef) {
    const pool = clientOf(temporal, resource, semaphore);
    const stand: Stand = {
      pool,
      ref,
      outliving: {},
      together: (fn, options) => withPermits([pool], (permits) => fn(permits), options),
      all: (options) => acquireAll([pool], options),
      at: ({ slot, runId }) => {
        this.held = { slot, runId };
      },
      finished: () => aborted(this.finished.signal),
      sleep: (ms) => delay(ms),
      token: () => currentFencingToken().toString(),
      lost: async (permit) => {
        const { signal } = permit as Permit;
        await aborted(signal);
        return signal.reason instanceof PermitLostError ? signal.reason : assert.fail(String(signal.reason));
      },
    };
    this.ended = Promise.resolve(uses[use](stand));
    this.ended.catch(() => undefined); // `end` tells
  }

  async holding(): Promise<Held> {
    const held = async () => await eventually(async () => this.held ?? assert.fail('not yet'));
    const early = this.ended.then((value) => this.held ?? assert.fail(`it ended before: ${JSON.stringify(value)}`));
    return await Promise.race([held(), early]);
  }

  async finish(): Promise<void> {
    this.finished.abort();
  }

  async end(): Promise<unknown> {
    return await this.ended;
  }

  async abandon(): Promise<void> {
    this.finished.abort();
    await this.ended.catch(() => undefined);
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
