import { useEffect, useReducer, useState } from 'preact/hooks';
import type { PoolView, SearchView, Session } from '../page-protocol';
import { Confirm, type Question } from './confirm';
import { isFound } from './find';
import { Pool } from './pool';
import { PoolList } from './pool-list';
import { Search } from './search';
import type { State, Store } from './store';
import { asOf, titleOf } from './title';

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
  const { session, pools } = state;
  const [wanted, chosen] = useChosen(pools);
  const [text, search] = useState('');
  const [question, ask] = useState<Question>();
  const [notice, tell] = useNotice();
  const asked = question && pools.find(({ resource }) => resource === question.resource);
  const title = titleOf(state, chosen);
  useEffect(() => {
    document.title = title;
  }, [title]);

  return (
    <>
      <Header link={state.link} session={session} />
      <main>
        {pools.length > 0 && <Search text={text} search={search} />}
        {pools.length > 1 && (
          <PoolList
            pools={pools.filter((view) => isFound(view, text))}
            chosen={chosen?.resource}
            isCurrent={(view) => asOf(state, view) === undefined}
          />
        )}
        {session && chosen && (
          <Pool
            key={chosen.resource}
            view={chosen}
            session={session}
            text={text}
            nowMs={Date.now() + state.skewMs}
            asOfMs={asOf(state, chosen)}
            ask={ask}
          />
        )}
        {session && !chosen && <p class="empty">{emptyText(wanted, state.search)}</p>}
        {!session && state.link === 'connecting' && <p class="empty">Connecting …</p>}
        {!session && state.link === 'lost' && <p class="empty">The dashboard's server does not answer.</p>}
      </main>
      <p class="notice" role="status" aria-live="polite">
        {notice}
      </p>
      {session && question && (
        <Confirm
          question={question}
          view={asked}
          isCurrent={asked !== undefined && asOf(state, asked) === undefined}
          csrfToken={session.csrfToken}
          close={(done) => {
            ask((now) => (now === question ? undefined : now));
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

function emptyText(wanted: string | undefined, { done, problem }: SearchView): string {
  if (problem !== undefined) return `The dashboard can't find the pools in use: ${problem}`;
  if (!done) return 'Looking for pools in use …';
  return wanted === undefined
    ? 'Nobody holds or waits for a permit anywhere in this namespace. When somebody does, it shows up here.'
    : `Nobody holds or waits for a permit of ${wanted}. When somebody does, it shows up here.`;
}

/** The resource that the address names, or else the first. */
function useChosen(pools: readonly PoolView[]): [wanted: string | undefined, chosen: PoolView | undefined] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const heed = () => setHash(location.hash);
    addEventListener('hashchange', heed);
    return () => removeEventListener('hashchange', heed);
  }, []);
  const wanted = hash.length > 1 ? decoded(hash.slice(1)) : undefined;
  return [wanted, wanted === undefined ? pools[0] : pools.find(({ resource }) => resource === wanted)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A message that goes away by itself. */
function useNotice(): [string, (notice: string) => void] {
  const [notice, tell] = useState('');
  useEffect(() => {
    if (notice === '') return;
    const timer = setTimeout(() => tell(''), NOTICE_MS);
    return () => clearTimeout(timer);
  }, [notice]);
  return [notice, tell];
}
