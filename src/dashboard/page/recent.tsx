import type { HoldView, PoolView } from '../wire';
import { clock, duration, hue } from './format';

const SHOWN = 10;

/** The last holds that have ended: also the timeline in words. */
export function Recent({ view }: { view: PoolView }) {
  const ended = view.holds
    .filter((hold): hold is HoldView & { toMs: number } => hold.toMs !== undefined && !hold.drained)
    .sort((a, b) => b.toMs - a.toMs)
    .slice(0, SHOWN);
  return (
    <section class="recent" aria-labelledby="recent">
      <h3 id="recent">Ended lately</h3>
      {ended.length === 0 && <p class="empty">No permit has ended in the last minutes.</p>}
      {ended.length > 0 && (
        <ul class="rows">
          {ended.map(({ runId, slot, holder, fromMs, toMs, outcome }) => (
            <li key={runId}>
              <b class={`number ${hue(holder)}`} title={`Slot ${slot}`}>
                {slot}
              </b>
              <span class="party" title={holder}>
                {holder}
              </span>
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
