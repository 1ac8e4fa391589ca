import type { PoolHead, PoolView } from '../wire';

/** All resources at a glance, to choose one from. */
export function PoolList({ pools, chosen }: { pools: readonly PoolView[]; chosen?: string }) {
  return (
    <nav class="pools" aria-label="Resources">
      {pools.map(({ resource, head }) => (
        <a
          key={resource}
          href={`#${encodeURIComponent(resource)}`}
          aria-current={resource === chosen ? 'page' : undefined}
        >
          <span class="name" title={resource}>
            {resource}
          </span>
          <Occupancy held={head.held} capacity={head.capacity} />
          <span class="figures">
            {figures(head)}
            {head.waiting > 0 && <b> · {head.waiting} waiting</b>}
            {head.override?.paused && <b> · paused</b>}
            {head.problem && <b class="bad"> · no answer</b>}
          </span>
        </a>
      ))}
    </nav>
  );
}

function Occupancy({ held, capacity = held }: { held: number; capacity?: number }) {
  const share = capacity > 0 ? Math.min(1, held / capacity) : 0;
  return (
    <span class="occupancy" aria-hidden="true">
      <span style={{ width: `${share * 100}%` }} />
    </span>
  );
}

function figures({ ready, held, capacity }: PoolHead): string {
  if (!ready) return '…';
  return capacity === undefined ? `${held} held` : `${held} of ${capacity}`;
}
