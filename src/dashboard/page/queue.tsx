import { useState } from 'preact/hooks';
import { DEFAULT_PRIORITY_KEY } from '../../shared/priority';
import type { ResourceView, Session, WaiterView } from '../page-protocol';
import { clock, count, ticking } from './format';
import { Party } from './names';

/** How many waiters are shown until the visitor asks for all. */
const FIRST = 10;

interface QueueProps {
  view: ResourceView;
  /** The waiters to show. */
  waiters: WaiterView[];
  /** The text searched for in their names. */
  text: string;
  session: Session;
  nowMs: number;
}

/** The waiters, in the order in which the queue would serve them now. */
export function Queue({ view, waiters, text, session, nowMs }: QueueProps) {
  const { waiting, waitersAsOfMs } = view.head;
  const [showsAll, showAll] = useState(false);
  const shown = showsAll ? waiters : waiters.slice(0, FIRST);
  const more = (waiting ?? 0) - view.waiters.length;
  return (
    <section class={waitersAsOfMs === undefined ? 'queue' : 'queue old'} aria-labelledby="queue">
      <h3 id="queue">
        Queue{' '}
        <small>
          {waiting === undefined ? '?' : waiting > 0 ? waiting : ''}
          {waitersAsOfMs !== undefined && ` as of ${clock(waitersAsOfMs)}`}
        </small>
      </h3>
      {waiters.length === 0 && <p class="empty">{emptyText(waiting, text)}</p>}
      {waiters.length > 0 && (
        <ol class="rows">
          {shown.map((waiter) => (
            <li key={waiter.ticketId}>
              <span class="place">{view.waiters.indexOf(waiter) + 1}</span>
              <Party party={waiter.waiter} session={session} />
              <Tags {...waiter} />
              <span class="time">{ticking((waitersAsOfMs ?? nowMs) - waiter.sinceMs)}</span>
            </li>
          ))}
        </ol>
      )}
      {waiters.length > FIRST && (
        <button type="button" class="more" onClick={() => showAll(!showsAll)}>
          {showsAll ? `Show the first ${FIRST}` : `Show all ${waiters.length}`}
        </button>
      )}
      {more > 0 && (showsAll || waiters.length <= FIRST) && text === '' && (
        <p class="empty">… and {count(more, 'more waiter')}.</p>
      )}
    </section>
  );
}

function Tags({ turn, priorityKey, fairnessKey }: WaiterView) {
  return (
    <span class="tags">
      {turn !== undefined && <span class="badge good">try slot {turn}</span>}
      {priorityKey !== DEFAULT_PRIORITY_KEY && <span class="badge">priority {priorityKey}</span>}
      {fairnessKey && (
        <span class="badge key" title={`Fairness key ${fairnessKey}`}>
          {fairnessKey}
        </span>
      )}
    </span>
  );
}

function emptyText(waiting: number | undefined, text: string): string {
  if (waiting === undefined) return 'The waiters are unknown.';
  return waiting > 0 && text !== '' ? 'No waiter matches.' : 'No waiters.';
}
