import type { ListPatch, ResourcePatch, ResourceView } from './page-protocol';

/** The patch that turns `before` into `after`; `undefined` when they look the same. */
export function diff(before: ResourceView, after: ResourceView): ResourcePatch | undefined {
  if (before === after) return undefined;
  const patch: ResourcePatch = {
    resource: after.resource,
    head: same(before.head, after.head) ? undefined : after.head,
    slots: diffList(before.slots, after.slots, slotKey),
    waiters: diffList(before.waiters, after.waiters, waiterKey),
    holds: diffList(before.holds, after.holds, holdKey),
    load: diffList(before.load, after.load, loadKey),
  };
  return patch.head || patch.slots || patch.waiters || patch.holds || patch.load ? patch : undefined;
}

/** Undoes {@link diff}: `apply(before, diff(before, after))` is `after`. Unchanged parts keep their identity. */
export function apply(before: ResourceView, patch: ResourcePatch): ResourceView {
  return {
    resource: before.resource,
    head: patch.head ?? before.head,
    slots: applyList(before.slots, patch.slots, slotKey),
    waiters: applyList(before.waiters, patch.waiters, waiterKey),
    holds: applyList(before.holds, patch.holds, holdKey),
    load: applyList(before.load, patch.load, loadKey),
  };
}

/** The view of a resource before the first look. */
export function emptyView(resource: string): ResourceView {
  const stats = { windowMs: 0, grantsPerMinute: 0 };
  const head = { ready: false, held: 0, queue: 'none' as const, stats };
  return { resource, head, slots: [], waiters: [], holds: [], load: [] };
}

const slotKey = ({ slot }: { slot: string }) => slot;
const waiterKey = ({ ticketId }: { ticketId: string }) => ticketId;
const holdKey = ({ runId }: { runId: string }) => runId;
const loadKey = ({ atMs }: { atMs: number }) => String(atMs);

type Key<T> = (item: T) => string;

function diffList<T>(before: T[], after: T[], key: Key<T>): ListPatch<T> | undefined {
  const old = new Map(before.map((item) => [key(item), item]));
  const kept = new Set(after.map(key));
  const gone = [...old.keys()].filter((name) => !kept.has(name));
  const put = after.filter((item) => !same(old.get(key(item)), item));
  const added = put.map(key).filter((name) => !old.has(name));
  const unordered = [...[...old.keys()].filter((name) => kept.has(name)), ...added];
  const order = after.map(key);
  const moved = order.some((name, index) => name !== unordered[index]);
  if (gone.length === 0 && put.length === 0 && !moved) return undefined;
  return {
    ...(gone.length > 0 ? { gone } : undefined),
    ...(put.length > 0 ? { put } : undefined),
    ...(moved ? { order } : undefined),
  };
}

function applyList<T>(before: T[], patch: ListPatch<T> | undefined, key: Key<T>): T[] {
  if (!patch) return before;
  const items = new Map(before.map((item) => [key(item), item]));
  for (const name of patch.gone ?? []) items.delete(name);
  for (const item of patch.put ?? []) items.set(key(item), item);
  return patch.order ? patch.order.flatMap((name) => items.get(name) ?? []) : [...items.values()];
}

/** These are small objects without cycles, whose fields are always set in the same order. */
function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
