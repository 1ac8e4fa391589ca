import type { Holder, PermitMemo } from './protocol';
import { readSlotsMark } from './slots';
import { fieldsOf, MAX_TIME_MS } from './untyped';

// Readers of memos and of answers to queries, for callers that only show them. Any client of the namespace may have written these values. The
// readers keep each valid part and leave out the rest, so that a caller sees the resource and no error. `wire-input` is stricter: its values
// become commands of a Workflow, so one invalid part makes it reject the whole message.

/** Reads the memo of a permit. Other languages write memos too, so any field may be missing. */
export function readPermitMemo(memo: unknown) {
  const fields = fieldsOf(memo) as Partial<Record<keyof PermitMemo, unknown>>;
  const { holder, purpose, pool, slots, leaseMs, pacedUntilMs, releasedAtMs, preemptedUntilMs, revokedBecause } =
    fields;
  return {
    holder: readShownHolder(holder),
    purpose: textOf(purpose),
    pool: textOf(pool),
    slots: readSlotsMark(slots),
    leaseMs: timeOf(leaseMs),
    pacedUntilMs: timeOf(pacedUntilMs),
    releasedAtMs: timeOf(releasedAtMs),
    preemptedUntilMs: timeOf(preemptedUntilMs),
    wasRevoked: revokedBecause !== undefined,
  };
}

/** When the lease ends, according to the permit's own answer. */
export function readDeadlineMs(answer: unknown): number | undefined {
  return timeOf(fieldsOf(answer).deadlineMs);
}

function readShownHolder(value: unknown): Holder {
  const { workflowId, runId, workflowType, identity } = fieldsOf(value);
  const texts = Object.entries({ workflowId, runId, workflowType, identity }).map(([name, text]) => [
    name,
    textOf(text),
  ]);
  return Object.fromEntries(texts.filter(([, text]) => text));
}

/** A non-empty string; `undefined` for anything else. Half a character, of which the page could make no link, is replaced. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.replace(/\p{Cs}/gu, '\ufffd') : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Epoch milliseconds that a `Date` can have. */
function timeOf(value: unknown): number | undefined {
  const ms = numberOf(value);
  return ms !== undefined && Math.abs(ms) <= MAX_TIME_MS ? ms : undefined;
}
