import type { PoolView, Session } from '../wire';
import type { Question } from './confirm';
import { Queue } from './queue';
import { Recent } from './recent';
import { Slots } from './slots';
import { Tiles } from './tiles';
import { Timeline } from './timeline';

export interface PoolProps {
  view: PoolView;
  session: Session;
  nowMs: number;
  ask: (question: Question) => void;
}

/** Everything about one resource. */
export function Pool(props: PoolProps) {
  const { view, nowMs, session } = props;
  const { head, resource } = view;
  if (!head.ready) {
    return <p class={head.problem ? 'problem' : 'empty'}>{head.problem ?? `Looking at ${resource} …`}</p>;
  }
  return (
    <article aria-labelledby="resource">
      <Title {...props} />
      {head.problem && (
        <p class="problem" role="alert">
          The last look failed, and what you see is older: {head.problem}
        </p>
      )}
      {head.queue === 'silent' && (
        <p class="problem" role="alert">
          The wait queue does not answer: does a worker run? Who waits is not known.
        </p>
      )}
      {head.capacity === undefined && (
        <p class="hint">
          Nobody has said how many slots there are: you see those that were seen held. Start the dashboard with{' '}
          <code>{`'${resource}=<capacity>'`}</code> for all of them.
        </p>
      )}
      <Tiles view={view} nowMs={nowMs} />
      <Slots {...props} />
      <Timeline view={view} nowMs={nowMs} />
      <div class="columns">
        <Queue view={view} session={session} nowMs={nowMs} />
        <Recent view={view} />
      </div>
    </article>
  );
}

function Title({ view, session, ask }: PoolProps) {
  const { resource, head } = view;
  const { override, capacity } = head;
  const paused = override?.paused ?? false;
  const version = override?.version ?? 0;
  return (
    <div class="title">
      <h2 id="resource" title={resource}>
        {resource}
      </h2>
      {paused && <span class="badge warn">paused</span>}
      {override?.capacity !== undefined && <span class="badge">resized to {override.capacity}</span>}
      {override?.reason && <span class="reason">“{override.reason}”</span>}
      {!session.readOnly && capacity !== undefined && (
        <p class="actions">
          <button type="button" onClick={() => ask({ do: paused ? 'resume' : 'pause', resource, version })}>
            {paused ? 'Resume …' : 'Pause …'}
          </button>
          <button type="button" onClick={() => ask({ do: 'resize', resource, capacity, version })}>
            Resize …
          </button>
        </p>
      )}
    </div>
  );
}
