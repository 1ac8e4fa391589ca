import type { KeysView, ResourceHead, ResourceView, Session } from '../page-protocol';
import type { Act, Question } from './confirm';
import { find } from './find';
import { clock, pauseText, resizeText, sourceText } from './format';
import { Keys } from './keys';
import { Load } from './load';
import { Queue } from './queue';
import { Recent } from './recent';
import { Slots } from './slots';
import { Tiles } from './tiles';
import { Timeline } from './timeline';

interface ResourceProps {
  view: ResourceView;
  /** Absent if no key of the resource is in use. */
  keys?: KeysView;
  session: Session;
  /** The text to search for in names. */
  text: string;
  nowMs: number;
  /** The time of the view, if it is old. */
  asOfMs?: number;
  /** Whether the page says of all resources that they are old. */
  isToldAbove: boolean;
  ask: (question: Question) => void;
}

/** Everything about one resource. An old view stands still, pale, with its buttons disabled. */
export function Resource({ view, keys, session, text, nowMs, asOfMs, isToldAbove, ask }: ResourceProps) {
  const { head, resource } = view;
  if (!head.ready) {
    return <p class={head.problem ? 'problem' : 'empty'}>{head.problem ?? `Loading ${resource} …`}</p>;
  }
  const isCurrent = asOfMs === undefined;
  const shownMs = asOfMs ?? nowMs;
  const found = find(view, text);
  const act = session.readOnly ? undefined : { ask, isCurrent };
  return (
    <article aria-labelledby="resource" class={isCurrent ? undefined : 'old'}>
      <Title view={view} act={act} />
      {!isCurrent && !isToldAbove && (
        <p class="problem" role="alert">
          {head.problem ? `The last refresh failed: ${head.problem}. ` : ''}
          This page shows the resource as of {clock(asOfMs)}. You can act again when it is current.
        </p>
      )}
      {head.strangers && (
        <p class="problem" role="alert">
          {head.strangers}
        </p>
      )}
      {head.paused?.map((paused) => (
        <p key={paused} class="problem" role="alert">
          {paused}
        </p>
      ))}
      {(head.queue === 'paused' || (head.queue === 'silent' && !head.strangers)) && (
        <p class="problem" role="alert">
          {head.queue === 'silent' && `The wait queue does not answer. ${workerRemedy(head)} `}
          {head.waitersAsOfMs === undefined
            ? 'The waiters are unknown until it answers.'
            : `The waiters are those of ${clock(head.waitersAsOfMs)}.`}
        </p>
      )}
      {head.disagreement && (
        <p class="problem" role="alert">
          Its callers disagree on the slots, so the larger number holds:{' '}
          {head.disagreement
            .map(({ slots, count, by }) => `${slots} (${count === 1 ? by : `${count} of them, such as ${by}`})`)
            .join(', ')}
          .
        </p>
      )}
      {head.capacity === undefined && (
        <p class="hint">
          The number of slots is unknown, so you see only slots that were held. To see all slots, start the dashboard
          with <code>{`'${resource}=<capacity>'`}</code>.
        </p>
      )}
      <Tiles view={view} nowMs={shownMs} />
      <Slots resource={resource} all={view.slots} slots={found.slots} session={session} nowMs={shownMs} act={act} />
      {keys && <Keys keys={keys} text={text} />}
      <Load view={view} nowMs={shownMs} />
      <Timeline view={view} found={found} session={session} nowMs={shownMs} />
      <div class="columns">
        <Queue view={view} waiters={found.waiters} text={text} session={session} nowMs={shownMs} />
        <Recent holds={found.holds} text={text} session={session} />
      </div>
    </article>
  );
}

function workerRemedy({ remedy }: ResourceHead): string {
  return remedy ? `If no permit worker runs, start one: ${remedy}.` : 'Check that a permit worker runs.';
}

function Title({ view, act }: { view: ResourceView; act?: Act }) {
  const { resource, head } = view;
  const { override, capacity } = head;
  const paused = override?.paused ?? false;
  const version = override?.version ?? 0;
  return (
    <div class="title">
      <h2 id="resource" title={resource}>
        {resource}
      </h2>
      {paused && <span class="badge warn">{pauseText(override?.pausedUntilMs)}</span>}
      {override && resizeText(override) && <span class="badge">{resizeText(override)}</span>}
      {override && sourceText(override) && <span class="badge">{sourceText(override)}</span>}
      {override?.reason && <span class="reason">“{override.reason}”</span>}
      {act && capacity !== undefined && (
        <p class="actions">
          <button
            type="button"
            disabled={!act.isCurrent}
            onClick={() => act.ask({ do: paused ? 'resume' : 'pause', resource, version })}
          >
            {paused ? 'Resume …' : 'Pause …'}
          </button>
          <button
            type="button"
            disabled={!act.isCurrent}
            onClick={() => act.ask({ do: 'resize', resource, capacity, version })}
          >
            Resize …
          </button>
        </p>
      )}
    </div>
  );
}
