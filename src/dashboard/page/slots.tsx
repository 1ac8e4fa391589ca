import type { PermitStatus, Session, SlotView } from '../page-protocol';
import type { Act } from './confirm';
import { ticking } from './format';
import type { HoldKind } from './hold-bar';
import { Cut, linkTo, Party } from './names';

/** With more slots than this, cards are smaller. */
const MANY = 24;

interface SlotsProps {
  resource: string;
  /** All slots of the resource. */
  all: SlotView[];
  /** The slots to show. */
  slots: SlotView[];
  session: Session;
  nowMs: number;
  act?: Act;
}

export function Slots({ resource, all, slots, session, nowMs, act }: SlotsProps) {
  return (
    <section aria-labelledby="slots">
      <h3 id="slots">Slots</h3>
      {slots.length === 0 && all.length > 0 && <p class="empty">No slot or holder matches.</p>}
      <ul class={all.length > MANY ? 'slots many' : 'slots'}>
        {slots.map(({ slot, state, permit }) => (
          <li key={slot} class={`slot ${state} ${state === 'held' && permit ? `kind-${cardKind(permit, nowMs)}` : ''}`}>
            <p class="head">
              <b class="number" title={`Slot ${slot}`}>
                <Cut text={slot} />
              </b>
              {state === 'held' && permit ? (
                <Party party={permit.holder} session={session} />
              ) : (
                <span class="state">{state}</span>
              )}
            </p>
            {state === 'held' && permit && <Details permit={permit} nowMs={nowMs} session={session} />}
            {state === 'held' && permit && act && (
              <button
                type="button"
                class="revoke"
                disabled={!act.isCurrent}
                aria-label={`Revoke slot ${slot}, held by ${permit.holder.name}`}
                onClick={() =>
                  act.ask({ do: 'revoke', resource, slot, runId: permit.runId, holder: permit.holder.name })
                }
              >
                Revoke
              </button>
            )}
            {state === 'drained' && <p class="line">taken out of use</p>}
            {state === 'paced' && <p class="line">released, and kept for its pace</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The colours of its card. */
function cardKind(
  { leaseDeadlineMs = Number.POSITIVE_INFINITY, preemptedUntilMs, paused }: PermitStatus,
  nowMs: number,
): HoldKind {
  if (paused) return 'cut-short';
  if (preemptedUntilMs !== undefined) return 'gave-way';
  return leaseDeadlineMs < nowMs ? 'cut-short' : 'held';
}

interface DetailsProps {
  permit: PermitStatus;
  nowMs: number;
  session: Session;
}

function Details({ permit, nowMs, session }: DetailsProps) {
  const { holder, purpose, sinceMs, runId } = permit;
  const what = [holder.workflowType, purpose].filter(Boolean).join(' · ');
  return (
    <>
      <p class="line what" title={what}>
        {what}
      </p>
      <p class="line times">
        <span>for {ticking(nowMs - sinceMs)}</span>
        <Lease permit={permit} nowMs={nowMs} />
        <a class="party" title={`Permit ${runId}`} {...linkTo(permit, session)}>
          permit
        </a>
      </p>
    </>
  );
}

/** How long the holder may still be silent, or how long it may take to give way. */
function Lease({ permit, nowMs }: { permit: PermitStatus; nowMs: number }) {
  const { leaseDeadlineMs, leaseSpared, leaseSpanMs, preemptedUntilMs, paused } = permit;
  if (paused) return <span class="lease late">paused on the server</span>;
  if (preemptedUntilMs !== undefined) {
    const leftMs = Math.max(0, preemptedUntilMs - nowMs);
    return <span class="lease late">gives way within {ticking(leftMs)}</span>;
  }
  if (leaseSpared) return null;
  if (leaseDeadlineMs === undefined) return <span>lease unknown: does a permit worker run?</span>;
  const leftMs = leaseDeadlineMs - nowMs;
  const share = leaseSpanMs ? Math.min(1, Math.max(0, leftMs / leaseSpanMs)) : 1;
  const late = leftMs < 0;
  return (
    <>
      <span class={late ? 'lease late' : 'lease'}>lease {late ? 'over' : ticking(leftMs)}</span>
      <span class="bar" aria-hidden="true">
        <span class={share < 0.25 ? 'low' : ''} style={{ transform: `scaleX(${share})` }} />
      </span>
    </>
  );
}
