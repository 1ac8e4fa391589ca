import type { PoolView } from '../page-protocol';

/** The state of the page's connection. */
export interface Connection {
  link: 'connecting' | 'live' | 'lost';
  /** When the server last sent an event, by its clock. */
  heardAtMs: number;
}

/** The time of the page's view of this pool; `undefined` when it is current. */
export function asOf({ link, heardAtMs }: Connection, { head }: PoolView): number | undefined {
  if (!head.ready) return undefined;
  return head.asOfMs ?? (link === 'live' ? undefined : heardAtMs);
}

/** The title of the browser's tab: `3/4 +2 gpu-pool` when two wait, `? gpu-pool` when the view is old. */
export function titleOf(connection: Connection, view: PoolView | undefined): string {
  if (!view) return 'temporal-semaphore';
  const { held, capacity, waiting = 0, ready } = view.head;
  const isKnown = ready && asOf(connection, view) === undefined;
  const line = waiting > 0 ? ` +${waiting}` : '';
  return `${isKnown ? `${held}${capacity === undefined ? '' : `/${capacity}`}${line}` : '?'} ${view.resource}`;
}
