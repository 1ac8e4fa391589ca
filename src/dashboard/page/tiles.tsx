import type { HoldView, Percentiles, ResourceView } from '../page-protocol';
import { clock, duration, ticking } from './format';

const BUCKETS = 30;

/** The resource in five figures. */
export function Tiles({ view, nowMs }: { view: ResourceView; nowMs: number }) {
  const { held, capacity, waiting, longestSinceMs, waitersAsOfMs, stats } = view.head;
  const free = view.slots.filter(({ state }) => state === 'free').length;
  const minutes = Math.round(stats.windowMs / 60_000);
  return (
    <dl class="tiles">
      <div>
        <dt>Held</dt>
        <dd>
          {held}
          {capacity !== undefined && <small> of {capacity}</small>}
        </dd>
        <dd class="note">{capacity === undefined ? 'capacity unknown' : free > 0 ? `${free} free` : 'none free'}</dd>
      </div>
      <div>
        <dt>Waiting</dt>
        <dd>{waiting ?? '?'}</dd>
        <dd class="note">
          {waiting === undefined
            ? 'unknown'
            : waitersAsOfMs !== undefined
              ? `as of ${clock(waitersAsOfMs)}`
              : longestSinceMs !== undefined
                ? `longest ${ticking(nowMs - longestSinceMs)}`
                : 'none'}
        </dd>
      </div>
      <div>
        <dt>Throughput</dt>
        <dd>
          {stats.grantsPerMinute}
          <small> / min</small>
        </dd>
        <dd class="note">
          <Sparkline holds={view.holds} nowMs={nowMs} windowMs={stats.windowMs} />
        </dd>
      </div>
      <Spread name="Wait" values={stats.waits} minutes={minutes} />
      <Spread name="Hold" values={stats.holds} minutes={minutes} />
    </dl>
  );
}

function Spread({ name, values, minutes }: { name: string; values?: Percentiles; minutes: number }) {
  return (
    <div>
      <dt>{name} (median)</dt>
      <dd>{values ? duration(values.p50Ms) : '–'}</dd>
      <dd class="note" title={values && `${values.count} in the last ${minutes} minutes`}>
        {values ? `p95 ${duration(values.p95Ms)} · max ${duration(values.maxMs)}` : 'none yet'}
      </dd>
    </div>
  );
}

/** Grants over the window. Each bar belongs to a fixed stretch of time, and moves left with it. */
function Sparkline({ holds, nowMs, windowMs }: { holds: HoldView[]; nowMs: number; windowMs: number }) {
  const stepMs = windowMs / BUCKETS;
  const last = Math.floor(nowMs / stepMs);
  const counts = Array.from({ length: BUCKETS }, () => 0);
  for (const { fromMs, drained } of holds) {
    const bucket = BUCKETS - 1 - (last - Math.floor(fromMs / stepMs));
    if (!drained && bucket >= 0 && bucket < BUCKETS) counts[bucket] = (counts[bucket] ?? 0) + 1;
  }
  const most = Math.max(1, ...counts);
  return (
    <svg class="sparkline" viewBox={`0 0 ${BUCKETS * 4} 16`} preserveAspectRatio="none" aria-hidden="true">
      {counts.map((count, index) => {
        const height = count === 0 ? 1 : Math.max(2, (count / most) * 16);
        return <rect key={index} x={index * 4} y={16 - height} width={3} height={height} class={count ? '' : 'none'} />;
      })}
    </svg>
  );
}
