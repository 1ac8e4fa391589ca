import { useMemo, useState } from 'preact/hooks';
import { permitId } from '../../shared/permit-id';
import type { HoldView, ResourceView, Session } from '../page-protocol';
import { clock, duration, shortNames } from './format';
import { HOLD_KINDS, type HoldKind, kindOf, visiblePart } from './hold-bar';
import { Cut, linkTo } from './names';

/** A bar that reaches to the left edge ends so far beyond it, and meets the edge when the sheet has moved on. */
const BEYOND_MS = 500;

/** With more slots than this, rows are thinner. */
const MANY = 24;

interface TimelineProps {
  view: ResourceView;
  /** The slots and holds to show. */
  found: Pick<ResourceView, 'slots' | 'holds'>;
  session: Session;
  nowMs: number;
}

/**
 * The holders of each slot over time. Bars lie on a sheet of time, and only the sheet moves as time goes by, so the browser
 * draws no bar again that has not changed and meets no edge. The keyboard's Tab stops here once; arrow keys move from bar to bar.
 */
export function Timeline({ view, found, session, nowMs }: TimelineProps) {
  const windowMs = view.head.stats.windowMs;
  const minutes = Math.round(windowMs / 60_000);
  const [originMs] = useState(nowMs - windowMs);
  const [pointedAt, pointAt] = useState<string>();
  const shift = ((nowMs - windowMs - originMs) / windowMs) * 100;
  const { holds } = found;
  const inWindow = { fromMs: nowMs - windowMs - BEYOND_MS, toMs: nowMs };
  const rows = useMemo(() => bySlot(holds), [holds]);
  const short = useMemo(
    () => shortNames(holds.flatMap(({ holder, drained }) => (drained ? [] : [holder.name]))),
    [holds],
  );
  const slots = view.slots.filter(({ slot }) => rows.has(slot) || found.slots.some((other) => other.slot === slot));
  const widest = Math.max(...slots.map(({ slot }) => slot.length));
  const shown = holds.find(({ runId }) => runId === pointedAt);
  const entry = shown ?? slots.flatMap(({ slot }) => rows.get(slot) ?? [])[0];
  const point = ({ target }: Event) => {
    const run = target instanceof Element && target.closest<HTMLElement>('.hold')?.dataset.run;
    if (run) pointAt(run);
  };
  return (
    <section
      class="timeline"
      aria-labelledby="timeline"
      onKeyDown={moveFocus}
      onFocusCapture={point}
      onPointerOver={point}
    >
      <h3 id="timeline">
        Timeline <small>last {minutes} minutes</small>
      </h3>
      <div
        class={slots.length > MANY ? 'chart many' : 'chart'}
        style={{ '--label': `min(${0.55 * widest + 1}rem, 25%)` }}
      >
        {slots.map(({ slot }) => (
          <div class="row" key={slot}>
            <b class="number" title={`Slot ${slot}`}>
              <Cut text={slot} />
            </b>
            <div class="track">
              <div class="sheet" style={{ transform: `translateX(${-shift}%)` }}>
                {rows.get(slot)?.map((hold) => (
                  <Bar
                    key={hold.runId}
                    hold={hold}
                    part={visiblePart(hold, inWindow)}
                    label={short(hold.holder.name)}
                    href={
                      linkTo({ workflowId: permitId({ resource: view.resource, slot }), runId: hold.runId }, session)
                        .href
                    }
                    isEntry={hold === entry}
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
        <ul class="legend">
          {(Object.keys(HOLD_KINDS) as HoldKind[]).map((kind) => (
            <li key={kind} class={`kind-${kind}`}>
              <i />
              {HOLD_KINDS[kind]}
            </li>
          ))}
        </ul>
        <p class="details" aria-hidden="true">
          {shown ? words(shown).join(' · ') : 'Point at a bar, or use the arrow keys to move from bar to bar.'}
        </p>
      </div>
    </section>
  );
}

interface BarProps {
  hold: HoldView;
  /** What of it lies in the window. */
  part: ReturnType<typeof visiblePart>;
  label: string;
  href?: string;
  /** Whether Tab leads to this bar. */
  isEntry: boolean;
  originMs: number;
  windowMs: number;
}

function Bar({ hold, part, label, href, isEntry, originMs, windowMs }: BarProps) {
  const { fromMs = 0, toMs = 0, isBegun = false } = part ?? {};
  const isVisible = part !== undefined;
  return useMemo(() => {
    if (!isVisible) return null;
    const { runId, drained } = hold;
    const percent = (ms: number) => `${(ms / windowMs) * 100}%`;
    return (
      <a
        class={`hold kind-${kindOf(hold)} ${isBegun ? 'begun' : ''}`}
        style={{ left: percent(fromMs - originMs), width: percent(toMs - fromMs) }}
        href={href}
        target="_blank"
        rel="noreferrer"
        tabIndex={isEntry ? 0 : -1}
        data-run={runId}
        aria-label={words(hold).join(', ')}
        title={words(hold).join('\n')}
      >
        {drained ? 'drained' : label}
      </a>
    );
  }, [hold, isVisible, fromMs, toMs, isBegun, label, href, isEntry, originMs, windowMs]);
}

function words({ slot, holder, purpose, fromMs, toMs, outcome, drained }: HoldView): string[] {
  const lasted = toMs === undefined ? `since ${clock(fromMs)}` : `${clock(fromMs)}, for ${duration(toMs - fromMs)}`;
  return [`slot ${slot}`, drained ? 'drained' : holder.name, purpose, lasted, outcome].filter(
    (word) => word !== undefined,
  );
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

/** Moves the focus by arrow keys: along a row, and to the nearest bar of the next row that has one. */
function moveFocus(event: KeyboardEvent): void {
  const from = event.target;
  if (!(from instanceof HTMLElement) || !from.matches('.hold')) return;
  const to = target(from, event.key);
  if (to === undefined) return;
  event.preventDefault();
  to?.focus({ preventScroll: true });
}

/** `undefined` for any other key; `null` when no bar lies that way. */
function target(from: HTMLElement, key: string): HTMLElement | null | undefined {
  const row = from.closest('.row');
  switch (key) {
    case 'ArrowLeft':
      return from.previousElementSibling as HTMLElement | null;
    case 'ArrowRight':
      return from.nextElementSibling as HTMLElement | null;
    case 'ArrowUp':
      return nearest(from, row, 'previousElementSibling');
    case 'ArrowDown':
      return nearest(from, row, 'nextElementSibling');
    default:
      return undefined;
  }
}

function nearest(
  from: HTMLElement,
  row: Element | null,
  next: 'previousElementSibling' | 'nextElementSibling',
): HTMLElement | null {
  const { left } = from.getBoundingClientRect();
  const distance = (bar: HTMLElement) => Math.abs(bar.getBoundingClientRect().left - left);
  for (let other = row?.[next]; other; other = other[next]) {
    const bars = [...other.querySelectorAll<HTMLElement>('.hold')];
    const [first, ...others] = bars;
    if (first) return others.reduce((best, bar) => (distance(bar) < distance(best) ? bar : best), first);
  }
  return null;
}
