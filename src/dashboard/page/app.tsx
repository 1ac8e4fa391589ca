import { useEffect, useReducer, useState } from 'preact/hooks';
import type { PoolView, Session } from '../wire';
import { Confirm, type Question } from './confirm';
import { Pool } from './pool';
import { PoolList } from './pool-list';
import type { State, Store } from './store';

const TICK_MS = 500;
const NOTICE_MS = 6_000;

export function App({ store }: { store: Store }) {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    store.onChange(() => redraw(undefined));
    const timer = setInterval(() => redraw(undefined), TICK_MS);
    return () => clearInterval(timer);
  }, [store]);
  const { state } = store;
  const chosen = useChosen(state.pools);
  const [question, ask] = useState<Question>();
  const [notice, tell] = useNotice();
  const nowMs = Date.now() + state.skewMs;
  const { session } = state;

  return (
    <>
      <Header link={state.link} session={session} />
      <main>
        {state.pools.length > 1 && <PoolList pools={state.pools} chosen={chosen?.resource} />}
        {session && chosen && <Pool key={chosen.resource} view={chosen} session={session} nowMs={nowMs} ask={ask} />}
        {session && !chosen && (
          <p class="empty">No permit is held and nobody waits anywhere in this namespace. What comes shows up here.</p>
        )}
        {!session && state.link === 'connecting' && <p class="empty">Connecting …</p>}
      </main>
      <p class="notice" role="status" aria-live="polite">
        {notice}
      </p>
      {session && question && (
        <Confirm
          question={question}
          view={state.pools.find(({ resource }) => resource === question.resource)}
          csrfToken={session.csrfToken}
          close={(done) => {
            ask(undefined);
            if (done) tell(done);
          }}
        />
      )}
    </>
  );
}

function Header({ link, session }: { link: State['link']; session?: Session }) {
  const word = { connecting: 'Connecting', live: 'Live', lost: 'Connection lost' }[link];
  return (
    <header class="top">
      <img class="mark" src="/icon.svg" alt="" width="24" height="24" />
      <h1>temporal-semaphore</h1>
      <p class="where">
        {session && (
          <span title="Namespace and address of the Temporal server">
            {session.namespace} · {session.address}
          </span>
        )}
        <span class={`link ${link}`} role="status">
          {word}
        </span>
      </p>
    </header>
  );
}

/** The resource that the address names, or else the first. */
function useChosen(pools: readonly PoolView[]): PoolView | undefined {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const heed = () => setHash(location.hash);
    addEventListener('hashchange', heed);
    return () => removeEventListener('hashchange', heed);
  }, []);
  return pools.find(({ resource }) => `#${encodeURIComponent(resource)}` === hash) ?? pools[0];
}

/** Something to say that goes away by itself. */
function useNotice(): [string, (notice: string) => void] {
  const [notice, tell] = useState('');
  useEffect(() => {
    if (notice === '') return;
    const timer = setTimeout(() => tell(''), NOTICE_MS);
    return () => clearTimeout(timer);
  }, [notice]);
  return [notice, tell];
}
