import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { InjectedSinks } from '@temporalio/worker';
import { FencingToken } from '@/fencing';
import type { PermitAddress } from '@/shared/permit-id';
import type { ObserverLink } from '../observer-link';
import type { TurnSinks } from './interceptor-workflows';

export interface WorkInput {
  acquire: string;
  holdMs: number;
  permit: PermitAddress & { runId: string };
}

/** How often a holder writes to the protected resource. */
export const WRITE_EVERY_MS = 100;

export function activities(link: ObserverLink) {
  return {
    /** Works under a permit until it is done or cancelled, and writes with its token all the while. */
    async work({ acquire, holdMs, permit }: WorkInput): Promise<void> {
      const context = Context.current();
      const body = `${acquire}/${randomUUID()}`;
      const token = FencingToken.from(permit).toString();
      await link.tell({ do: 'begin', acquire, body, token });
      try {
        for (const untilMs = performance.now() + holdMs; performance.now() < untilMs; ) {
          await link.tell({ do: 'write', acquire, token });
          context.heartbeat();
          await Promise.race([delay(WRITE_EVERY_MS), context.cancelled]);
        }
      } finally {
        await link.tell({ do: 'end', acquire, body });
      }
    },
  };
}

/** Tells the parent process which Workflow has just had its turn. */
export const sinks: InjectedSinks<TurnSinks> = {
  chaos: { turn: { fn: ({ workflowId }) => void process.send?.({ turn: workflowId }), callDuringReplay: false } },
};
