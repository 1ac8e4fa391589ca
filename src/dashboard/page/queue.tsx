import type { PoolView, Session } from '../wire';
import { count, ticking } from './format';
import { Party } from './party';

const DEFAULT_PRIORITY = 3;

/** Who waits, in the order in which they are served as things stand. */
export function Queue({ view, session, nowMs }: { view: PoolView; session: Session; nowMs: number }) {
  const { waiters, head } = view;
  const more = head.waiting - waiters.length;
  return (
    <section class="queue" aria-labelledby="queue">
      <h3 id="queue">
        Queue <small>{head.waiting > 0 ? head.waiting : ''}</small>
      </h3>
      {waiters.length === 0 && <p class="empty">Nobody waits.</p>}
      {waiters.length > 0 && (
        <ol class="rows">
          {waiters.map(({ ticketId, waiter, priorityKey, fairnessKey, sinceMs, turn }) => (
            <li key={ticketId}>
              <Party party={waiter} session={session} />
              <span class="tags">
                {turn !== undefined && <span class="badge good">try slot {turn}</span>}
                {priorityKey !== DEFAULT_PRIORITY && <span class="badge">priority {priorityKey}</span>}
                {fairnessKey && (
                  <span class="badge key" title={`Fairness key ${fairnessKey}`}>
                    {fairnessKey}
                  </span>
                )}
              </span>
              <span class="time">{ticking(nowMs - sinceMs)}</span>
            </li>
          ))}
        </ol>
      )}
      {more > 0 && <p class="empty">… and {count(more, 'more waiter')}.</p>}
    </section>
  );
}
