import type { LoadView, ResourceView } from '../page-protocol';
import { count } from './format';

/** Between two looks at an idle resource, or at a resource with many slots, there is more than a step. In a longer gap, there was no look. */
const GAP_MS = 30_000;

const WIDTH = 300;
const HEIGHT = 40;

/** How much was held, and beside it how many waited, over the window. */
export function Load({ view, nowMs }: { view: ResourceView; nowMs: number }) {
  const { load, head } = view;
  const minutes = Math.round(head.stats.windowMs / 60_000);
  const capacity = Math.max(head.capacity ?? 0, ...load.map((step) => step.capacity ?? step.held));
  const held = load.map((step) => step.held);
  const waiting = load.flatMap((step) => step.waiting ?? []);
  const mostWaiting = Math.max(0, ...waiting);
  return (
    <section class="load" aria-label={`Use and waiting in the last ${minutes} minutes`}>
      <figure>
        <figcaption>
          <b>In use</b>{' '}
          {held.length > 0 && (
            <small>
              mean {tenths(mean(held))} of {tenths(capacity)}
            </small>
          )}
        </figcaption>
        <Chart
          load={load}
          of={({ held }) => held}
          top={capacity}
          kind="use"
          windowMs={head.stats.windowMs}
          nowMs={nowMs}
        />
      </figure>
      <figure>
        <figcaption>
          <b>Waiting</b>{' '}
          {waiting.length > 0 && <small>{mostWaiting > 0 ? `at most ${tenths(mostWaiting)}` : 'none'}</small>}
        </figcaption>
        <Chart
          load={load}
          of={({ waiting }) => waiting}
          top={mostWaiting}
          kind="line"
          windowMs={head.stats.windowMs}
          nowMs={nowMs}
        />
      </figure>
      <p class="axis" aria-hidden="true">
        <span>−{count(minutes, 'minute')}</span>
        <span>now</span>
      </p>
    </section>
  );
}

interface ChartProps {
  load: LoadView[];
  of: (step: LoadView) => number | undefined;
  /** What fills the whole height. */
  top: number;
  kind: 'use' | 'line';
  windowMs: number;
  nowMs: number;
}

function Chart({ load, of, top, kind, windowMs, nowMs }: ChartProps) {
  const x = (ms: number) => WIDTH - ((nowMs - ms) / windowMs) * WIDTH;
  return (
    <div class={`plot ${kind}`}>
      <span class="most">{top > 0 && tenths(top)}</span>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {load.map((step, index) => {
          const value = of(step);
          if (!value) return null;
          const endMs = Math.min(load[index + 1]?.atMs ?? nowMs, step.atMs + GAP_MS, nowMs);
          const height = (value / Math.max(1, top)) * HEIGHT;
          // A little wider than it is, so that no gap shows between two.
          const width = Math.max(0, x(endMs) - x(step.atMs)) + 0.3;
          return <rect key={step.atMs} x={x(step.atMs)} y={HEIGHT - height} width={width} height={height} />;
        })}
      </svg>
    </div>
  );
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function tenths(value: number): string {
  return String(Math.round(value * 10) / 10);
}
