import { useMemo, useState } from 'preact/hooks';
import type { HoldView, PoolView } from '../wire';
import { clock, duration, hue, shortNames } from './format';

/**
 * Of a hold that goes on: it reaches beyond the right edge, which is now, for as long as a page may be open. It has no label,
 * which the edge would cut; its card says who it is.
 */
const OPEN_MS = 100 * 3_600_000;

/** With more than this, rows are thinner. */
const MANY = 24;

/**
 * Who held which slot when. Bars have their places on a sheet of time, and only the sheet is moved as time goes by: so
 * nothing is drawn anew that did not change.
 */
export function Timeline({ view, nowMs }: { view: PoolView; nowMs: number }) {
  const windowMs = view.head.stats.windowMs;
  const minutes = Math.round(windowMs / 60_000);
  const [originMs] = useState(nowMs - windowMs);
  const shift = ((nowMs - windowMs - originMs) / windowMs) * 100;
  const rows = useMemo(() => bySlot(view.holds), [view.holds]);
  const short = useMemo(
    () => shortNames(view.holds.flatMap(({ holder, drained }) => (drained ? [] : [holder]))),
    [view.holds],
  );
  return (
    <section class="timeline" aria-labelledby="timeline">
      <h3 id="timeline">
        Timeline <small>last {minutes} minutes</small>
      </h3>
      <div class={view.slots.length > MANY ? 'chart many' : 'chart'}>
        {view.slots.map(({ slot }) => (
          <div class="row" key={slot}>
            <b class="number" title={`Slot ${slot}`}>
              {slot}
            </b>
            <div class="track">
              <div class="sheet" style={{ transform: `translateX(${-shift}%)` }}>
                {rows.get(slot)?.map((hold) => (
                  <Bar
                    key={hold.runId}
                    hold={hold}
                    label={short(hold.holder)}
                    originMs={originMs}
                    windowMs={windowMs}
                  />
                ))}
              </div>
            </div>
          </div>
        ))}
        <div class="axis" aria-hidden="true">
          {Array.from({ length: minutes }, (_, index) => (
            <span key={minutes - index}>−{minutes - index} min</span>
          ))}
          <span>now</span>
        </div>
      </div>
    </section>
  );
}

interface BarProps {
  hold: HoldView;
  label: string;
  originMs: number;
  windowMs: number;
}

function Bar({ hold, label, originMs, windowMs }: BarProps) {
  return useMemo(() => {
    const { holder, purpose, fromMs, toMs, outcome, drained } = hold;
    const percent = (ms: number) => `${(ms / windowMs) * 100}%`;
    const lasted = toMs === undefined ? `since ${clock(fromMs)}` : `${clock(fromMs)}, for ${duration(toMs - fromMs)}`;
    return (
      <span
        class={`hold ${drained ? 'drained' : hue(holder)} ${outcome && outcome !== 'released' ? 'cut' : ''}`}
        style={{ left: percent(fromMs - originMs), width: percent((toMs ?? fromMs + OPEN_MS) - fromMs) }}
        title={[drained ? 'drained' : holder, purpose, lasted, outcome].filter(Boolean).join('\n')}
      >
        {toMs !== undefined && (drained ? 'drained' : label)}
      </span>
    );
  }, [hold, label, originMs, windowMs]);
}

function bySlot(holds: HoldView[]): Map<string, HoldView[]> {
  const rows = new Map<string, HoldView[]>();
  for (const hold of holds) {
    const row = rows.get(hold.slot);
    if (row) row.push(hold);
    else rows.set(hold.slot, [hold]);
  }
  return rows;
}
