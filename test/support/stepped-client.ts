import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import type { PostgresClient } from '@/fencing';

/** A connection whose queries wait until the test lets them go, one by one. */
export class SteppedClient implements PostgresClient {
  private readonly waiting: (() => void)[] = [];
  private running = false;
  private inFlight = false;

  constructor(
    private readonly client: Client & { processID?: number | null },
    private readonly watcher: Client,
  ) {}

  async query<Row extends { [column: string]: unknown }>(text: string, values?: unknown[]) {
    if (!this.running) await new Promise<void>((go) => this.waiting.push(go));
    this.inFlight = true;
    try {
      return await this.client.query<Row>(text, values);
    } finally {
      this.inFlight = false;
    }
  }

  on(event: 'error', listener: (error: Error) => void): void {
    this.client.on(event, listener);
  }

  removeListener(event: 'error', listener: (error: Error) => void): void {
    this.client.removeListener(event, listener);
  }

  /** Lets one query go, and waits until it is done or Postgres has it wait for a lock. Nothing happens if one waits already. */
  async step(): Promise<void> {
    if (this.inFlight) return;
    this.waiting.shift()?.();
    // The code between two queries takes microtasks only, so after a macrotask the next query is here.
    do await delay(1);
    while (this.inFlight && !(await this.isBlocked()));
  }

  /** Lets everything go from now on. */
  run(): void {
    this.running = true;
    for (const go of this.waiting.splice(0)) go();
  }

  private async isBlocked(): Promise<boolean> {
    const { rows } = await this.watcher.query<{ blocked: boolean }>(
      'SELECT cardinality(pg_blocking_pids($1)) > 0 AS blocked',
      [this.client.processID],
    );
    return rows[0]?.blocked ?? false;
  }
}
