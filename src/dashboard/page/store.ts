import {
  type Action,
  CSRF_HEADER,
  type Hello,
  KEY_PARAMETER,
  type KeysByResource,
  type ResourceView,
  type SearchView,
  type Session,
  type Update,
} from '../page-protocol';
import { apply, emptyView } from '../view-diff';
import type { Connection } from './format';

/** Everything that the page knows. It never changes: each event makes a new one. */
export interface State extends Connection {
  session?: Session;
  search: SearchView;
  resources: readonly ResourceView[];
  keys: KeysByResource;
  /** How far the server's clock is ahead of this browser's. */
  skewMs: number;
}

/** The server sends something every 10 s. After this long without an event, the page takes the connection for dead. */
const SILENCE_MS = 15_000;

const RECONNECT_MS = 2_000;

/** Follows the server's events, and reconnects when the connection is lost. */
export class Store {
  state: State = { link: 'connecting', search: { done: false }, resources: [], keys: {}, heardAtMs: 0, skewMs: 0 };
  private source: EventSource | undefined;
  private key: string | undefined;
  private listener: () => void = () => undefined;
  private timer: number | undefined;

  /** @param listener called when `state` has been replaced */
  onChange(listener: () => void): void {
    this.listener = listener;
  }

  /** Has the server look at a key too, or no longer at one. */
  showKey(key: string | undefined): void {
    if (key === this.key) return;
    this.key = key;
    this.connect();
  }

  connect(): void {
    this.source?.close();
    const source = new EventSource(
      this.key === undefined ? '/events' : `/events?${KEY_PARAMETER}=${encodeURIComponent(this.key)}`,
    );
    this.source = source;
    source.addEventListener('hello', ({ data }) => this.hear(JSON.parse(data) as Hello, hello));
    source.addEventListener('update', ({ data }) => this.hear(JSON.parse(data) as Update, update));
    // A browser reconnects after some failures and not after others, so this always does it itself.
    source.onerror = () => this.lose(RECONNECT_MS);
    this.expectWithin(SILENCE_MS);
  }

  private hear<T extends { nowMs: number }>(event: T, change: (state: State, event: T) => State): void {
    this.expectWithin(SILENCE_MS);
    this.set({ ...change(this.state, event), link: 'live', heardAtMs: event.nowMs, skewMs: event.nowMs - Date.now() });
  }

  private expectWithin(ms: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.lose(0), ms);
  }

  private lose(againInMs: number): void {
    this.source?.close();
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.connect(), againInMs);
    this.set({ ...this.state, link: 'lost' });
  }

  private set(state: State): void {
    this.state = state;
    this.listener();
  }
}

function hello(state: State, { session, search, silence, resources, keys }: Hello): State {
  return { ...state, session, search, silence, resources, keys };
}

function update(state: State, { search, silence, patches, resources, keys = state.keys }: Update): State {
  const views = new Map(state.resources.map((view) => [view.resource, view]));
  for (const patch of patches) {
    views.set(patch.resource, apply(views.get(patch.resource) ?? emptyView(patch.resource), patch));
  }
  const names = resources ?? state.resources.map(({ resource }) => resource);
  return { ...state, search, silence, keys, resources: names.map((name) => views.get(name) ?? emptyView(name)) };
}

/** Asks the server to carry out an action. @returns why that failed; `undefined` when it is done */
export async function send(action: Action, csrfToken: string): Promise<string | undefined> {
  try {
    const answer = await fetch('/actions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', [CSRF_HEADER]: csrfToken },
      body: JSON.stringify(action),
    });
    if (answer.ok) return undefined;
    const text = await answer.text();
    try {
      return (JSON.parse(text) as { error: string }).error;
    } catch {
      return text;
    }
  } catch {
    return "The dashboard's server does not answer.";
  }
}
