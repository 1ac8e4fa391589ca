import type { HoldView, Session } from '../page-protocol';
import { clock, duration } from './format';
import { kindOf } from './hold-bar';
import { Party } from './names';

const SHOWN = 10;

interface RecentProps {
  holds: HoldView[];
  /** The text searched for in their names. */
  text: string;
  session: Session;
}

/** The last holds that have ended: also the timeline in words. */
export function Recent({ holds, text, session }: RecentProps) {
  const ended = holds
    .filter((hold): hold is HoldView & { toMs: number } => hold.toMs !== undefined && !hold.drained)
    .sort((a, b) => b.toMs - a.toMs)
    .slice(0, SHOWN);
  return (
    <section class="recent" aria-labelledby="recent">
      <h3 id="recent">Ended recently</h3>
      {ended.length === 0 && (
        <p class="empty">
          {text === '' ? 'No permit has ended in the last minutes.' : 'No permit that has ended recently matches.'}
        </p>
      )}
      {ended.length > 0 && (
        <ul class="rows">
          {ended.map(({ runId, slot, holder, fromMs, toMs, outcome }) => (
            <li key={runId}>
              <b class={`number kind-${kindOf({ toMs, outcome })}`} title={`Slot ${slot}`}>
                {slot}
              </b>
              <Party party={holder} session={session} />
              <span class="tags">
                {outcome && outcome !== 'released' && <span class="badge warn">{outcome}</span>}
                <span>{duration(toMs - fromMs)}</span>
              </span>
              <time class="time" dateTime={new Date(toMs).toISOString()}>
                {clock(toMs)}
              </time>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
