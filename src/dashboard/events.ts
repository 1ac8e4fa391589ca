import type { SSEStreamingApi } from 'hono/streaming';
import type { Hub } from './hub';
import type { Hello, ResourceView, Session, Update } from './page-protocol';
import { diff, emptyView } from './view-diff';

/** The server sends something at least this often, so that each side notices when the other is gone. */
const BEAT_MS = 10_000;

/**
 * Sends one page all resources, and then the changes, until the page is gone. This keeps what each page has got last, so a slow page
 * gets fewer and larger updates, and never a growing backlog.
 * @param key the key that the page shows
 */
export async function sendEvents(stream: SSEStreamingApi, hub: Hub, session: Session, key?: string): Promise<void> {
  let told: ResourceView[] = [];
  let changed = false;
  let wake: () => void = () => undefined;
  const unsubscribe = hub.subscribe(() => {
    changed = true;
    wake();
  });
  const endShow = key === undefined ? () => undefined : hub.show(key);
  stream.onAbort(() => {
    unsubscribe();
    wake();
  });
  try {
    told = hub.views;
    let { keys } = hub;
    const { searchView: search, silence } = hub;
    const hello: Hello = { nowMs: Date.now(), session, search, silence, resources: told, keys };
    await stream.writeSSE({ event: 'hello', data: JSON.stringify(hello) });
    while (!stream.aborted) {
      if (!changed) await untilWoken(BEAT_MS, (resolve) => (wake = resolve));
      if (stream.aborted) return;
      changed = false;
      const { views, searchView: search, silence } = hub;
      const update: Update = {
        ...updateOf(told, views),
        search,
        silence,
        ...(hub.keys !== keys && { keys: hub.keys }),
      };
      keys = hub.keys;
      await stream.writeSSE({ event: 'update', data: JSON.stringify(update) });
      told = views;
    }
  } finally {
    endShow();
    unsubscribe();
  }
}

function updateOf(before: ResourceView[], after: ResourceView[]): Omit<Update, 'search' | 'silence' | 'keys'> {
  const known = new Map(before.map((view) => [view.resource, view]));
  const patches = after.flatMap((view) => diff(known.get(view.resource) ?? emptyView(view.resource), view) ?? []);
  const others = after.length !== before.length || after.some(({ resource }) => !known.has(resource));
  return { nowMs: Date.now(), patches, ...(others ? { resources: after.map(({ resource }) => resource) } : undefined) };
}

async function untilWoken(atMostMs: number, onWake: (wake: () => void) => void): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, atMostMs);
    onWake(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
