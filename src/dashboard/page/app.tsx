import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { isKeyResource } from '../../shared/key-names';
import type { ResourceView, Session } from '../page-protocol';
import { allKnown, neediest } from './attention';
import { Confirm, type Question } from './confirm';
import { isFound } from './find';
import { asOf, clock, type Silence, silenceOf, ticking, titleOf } from './format';
import { Resource } from './resource';
import { ResourceList } from './resource-list';
import type { State, Store } from './store';

const TICK_MS = 500;
const NOTICE_MS = 6_000;

/** The page opens on one of the resources that it knows by then. A look at a resource for which no worker answers takes seconds. */
const OPEN_WITHIN_MS = 6_000;

export function App({ store }: { store: Store }) {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    store.onChange(() => redraw(undefined));
    const timer = setInterval(() => redraw(undefined), TICK_MS);
    return () => clearInterval(timer);
  }, [store]);
  const { state } = store;
  const { session, resources } = state;
  const [text, search] = useState('');
  const [question, ask] = useState<Question>();
  const [notice, tell] = useNotice();
  const nowMs = Date.now() + state.skewMs;
  const silence = silenceOf(state);
  const [wanted, chosen] = useChosen(state, nowMs);
  const asked = question && resources.find(({ resource }) => resource === question.resource);
  const title = titleOf(state, chosen);
  const key = wanted !== undefined && isKeyResource(wanted) ? wanted : undefined;
  useEffect(() => store.showKey(key), [store, key]);
  useEffect(() => {
    document.title = title;
  }, [title]);

  return (
    <>
      <Header link={state.link} silence={silence} nowMs={nowMs} session={session} />
      {silence && resources.length > 0 && <Banner silence={silence} nowMs={nowMs} />}
      <main>
        {resources.length > 0 && <Search text={text} search={search} />}
        {resources.length > 1 && (
          <ResourceList
            resources={resources.filter((view) => isFound(view, text))}
            chosen={chosen?.resource}
            isCurrent={(view) => asOf(state, view) === undefined}
            isToldAbove={silence !== undefined}
          />
        )}
        {session && chosen && (
          <Resource
            key={chosen.resource}
            view={chosen}
            keys={state.keys[chosen.resource]}
            session={session}
            text={text}
            nowMs={nowMs}
            asOfMs={asOf(state, chosen)}
            isToldAbove={silence !== undefined}
            ask={ask}
          />
        )}
        {session && !chosen && <p class="empty">{emptyText(wanted, state)}</p>}
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

interface HeaderProps {
  link: State['link'];
  silence?: Silence;
  nowMs: number;
  session?: Session;
}

function Header({ link, silence, nowMs, session }: HeaderProps) {
  const word = silence?.word ?? (link === 'live' ? 'Live' : 'Connecting');
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
        <span class={`link ${silence ? 'lost' : link}`} role="status">
          {word}
        </span>
        {silence?.asOfMs !== undefined && <span>{ticking(nowMs - silence.asOfMs)} old</span>}
      </p>
    </header>
  );
}

/** Says that nothing on the page is current. Its age is no part of the alert, which would be read out twice a second. */
function Banner({ silence, nowMs }: { silence: Silence; nowMs: number }) {
  const { why, asOfMs } = silence;
  return (
    <div class="banner">
      <p role="alert">{why}</p>
      {asOfMs !== undefined && (
        <p>
          This page shows what was at {clock(asOfMs)}, {ticking(nowMs - asOfMs)} ago. You can act again when it is
          current.
        </p>
      )}
    </div>
  );
}

function emptyText(wanted: string | undefined, { search: { done, problem }, resources }: State): string {
  if (wanted === undefined && resources.length > 0) return 'Loading the resources in use …';
  if (problem !== undefined) return `The dashboard can't find the resources in use: ${problem}`;
  if (!done) return 'Searching for resources in use …';
  return wanted === undefined
    ? 'No caller holds or waits for a permit in this namespace. A resource shows up here when it comes into use.'
    : `No caller holds or waits for a permit of ${wanted}. A resource shows up here when it comes into use.`;
}

/**
 * The resource that the address names, or else the one that needed a person most when the page was opened: what moves on its own
 * would move the buttons too.
 */
function useChosen(
  { resources, search }: State,
  nowMs: number,
): [wanted: string | undefined, chosen: ResourceView | undefined] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const heed = () => setHash(location.hash);
    addEventListener('hashchange', heed);
    return () => removeEventListener('hashchange', heed);
  }, []);
  const opened = useRef<string | undefined>(undefined);
  const waitsUntilMs = useRef<number | undefined>(undefined);
  const wanted = hash.length > 1 ? decoded(hash.slice(1)) : undefined;
  const named = (name: string | undefined) => resources.find(({ resource }) => resource === name);
  if (wanted !== undefined) return [wanted, named(wanted)];
  if (!named(opened.current) && resources.length > 0) {
    waitsUntilMs.current ??= nowMs + OPEN_WITHIN_MS;
    const canTell = allKnown(resources, search) || nowMs >= waitsUntilMs.current;
    opened.current = canTell ? neediest(resources, nowMs)?.resource : undefined;
  }
  return [undefined, named(opened.current)];
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

interface SearchProps {
  text: string;
  search: (text: string) => void;
}

/** Finds holders, waiters, purposes and slots in all resources. */
function Search({ text, search }: SearchProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.closest('input, dialog') !== null;
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  return (
    <search>
      <input
        ref={input}
        type="search"
        aria-label="Find a holder, waiter, purpose or slot"
        placeholder="Find a holder, waiter, purpose or slot  ( / )"
        value={text}
        onInput={({ currentTarget }) => search(currentTarget.value)}
        onKeyDown={({ key }) => key === 'Escape' && search('')}
      />
    </search>
  );
}
