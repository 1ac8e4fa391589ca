import type { PermitView, SlotView } from '../wire';
import { hue, ticking } from './format';
import { Party, WorkflowLink } from './party';
import type { PoolProps } from './pool';

/** With more than this, cards are smaller. */
const MANY = 24;

export function Slots({ view, session, nowMs, ask }: PoolProps) {
  const { resource, slots } = view;
  return (
    <section aria-labelledby="slots">
      <h3 id="slots">Slots</h3>
      <ul class={slots.length > MANY ? 'slots many' : 'slots'}>
        {slots.map(({ slot, state, permit }) => (
          <li key={slot} class={`slot ${state} ${state === 'held' && permit ? hue(permit.holder.name) : ''}`}>
            <p class="head">
              <b class="number" title={`Slot ${slot}`}>
                {slot}
              </b>
              {state === 'held' && permit ? (
                <Party party={permit.holder} session={session} />
              ) : (
                <span class="state">{state}</span>
              )}
            </p>
            {state === 'held' && permit && <Details slot={slot} permit={permit} nowMs={nowMs} session={session} />}
            {state === 'held' && permit && !session.readOnly && (
              <button
                type="button"
                class="revoke"
                aria-label={`Revoke slot ${slot}, held by ${permit.holder.name}`}
                onClick={() => ask({ do: 'revoke', resource, slot, runId: permit.runId, holder: permit.holder.name })}
              >
                Revoke
              </button>
            )}
            {state === 'drained' && <p class="line">taken out of use</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface DetailsProps {
  slot: SlotView['slot'];
  permit: PermitView;
  nowMs: number;
  session: PoolProps['session'];
}

function Details({ permit, nowMs, session }: DetailsProps) {
  const { holder, purpose, sinceMs, workflowId, runId } = permit;
  const what = [holder.workflowType, purpose].filter(Boolean).join(' · ');
  return (
    <>
      <p class="line what" title={what}>
        {what}
      </p>
      <p class="line times">
        <span>for {ticking(nowMs - sinceMs)}</span>
        <Lease permit={permit} nowMs={nowMs} />
        <WorkflowLink workflowId={workflowId} runId={runId} session={session} text={`Permit ${runId}`}>
          permit
        </WorkflowLink>
      </p>
    </>
  );
}

/** How long the holder may still be silent. */
function Lease({ permit, nowMs }: { permit: PermitView; nowMs: number }) {
  const { leaseDeadlineMs, leaseSpanMs } = permit;
  if (leaseDeadlineMs === undefined) return <span>lease not known: does a worker run?</span>;
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
