import type { PoolView } from '../page-protocol';

/** What the page knows of its connection. */
export interface Connection {
  link: 'connecting' | 'live' | 'lost';
  /** When the server last said something, by its clock. */
  heardAtMs: number;
}

/** When what the page has of this pool was so; `undefined` for now. */
export function asOf({ link, heardAtMs }: Connection, { head }: PoolView): number | undefined {
  if (!head.ready) return undefined;
  return head.asOfMs ?? (link === 'live' ? undefined : heardAtMs);
}

/** For the browser's tab: `3/4 +2 gpu-pool` when two wait, `? gpu-pool` when nobody knows. */
export function titleOf(connection: Connection, view: PoolView | undefined): string {
  if (!view) return 'temporal-semaphore';
  const { held, capacity, waiting = 0, ready } = view.head;
  const isKnown = ready && asOf(connection, view) === undefined;
  const line = waiting > 0 ? ` +${waiting}` : '';
  return `${isKnown ? `${held}${capacity === undefined ? '' : `/${capacity}`}${line}` : '?'} ${view.resource}`;
}
