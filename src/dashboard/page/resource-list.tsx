import type { ResourceHead, ResourceView } from '../page-protocol';
import { pauseText } from './format';
import { Cut } from './names';

interface ResourceListProps {
  resources: readonly ResourceView[];
  chosen?: string;
  isCurrent: (view: ResourceView) => boolean;
  /** Whether the page reports that it gets no answer for any resource. */
  isToldAbove: boolean;
}

/** All resources at a glance, to choose one from. */
export function ResourceList({ resources, chosen, isCurrent, isToldAbove }: ResourceListProps) {
  return (
    <nav class="resources" aria-label="Resources">
      {resources.map((view) => (
        <ResourceLink
          key={view.resource}
          view={view}
          isChosen={view.resource === chosen}
          isCurrent={isCurrent(view)}
          isToldAbove={isToldAbove}
        />
      ))}
    </nav>
  );
}

interface ResourceLinkProps {
  view: ResourceView;
  isChosen: boolean;
  isCurrent: boolean;
  isToldAbove: boolean;
}

function ResourceLink({ view, isChosen, isCurrent, isToldAbove }: ResourceLinkProps) {
  const { resource, head } = view;
  return (
    <a
      class={isCurrent ? undefined : 'old'}
      href={`#${encodeURIComponent(resource)}`}
      aria-current={isChosen ? 'page' : undefined}
    >
      <span class="name" title={resource}>
        <Cut text={resource} />
      </span>
      <Occupancy held={head.held} capacity={head.capacity} />
      <span class="figures">
        {figures(head)}
        {head.ready && head.waiting !== 0 && <b class="waiting"> · {head.waiting ?? '?'} waiting</b>}
        {head.override?.paused && <b> · {pauseText(head.override.pausedUntilMs)}</b>}
        {head.problem && !isToldAbove && <b class="bad"> · no answer</b>}
        {!head.problem && !head.strangers && head.queue === 'silent' && <b class="bad"> · queue silent</b>}
        {head.paused && <b class="bad"> · paused on the server</b>}
        {head.strangers && <b class="bad"> · foreign Workflow</b>}
        {head.disagreement && <b class="bad"> · callers disagree</b>}
      </span>
    </a>
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

function figures({ ready, held, capacity }: ResourceHead): string {
  if (!ready) return '…';
  return capacity === undefined ? `${held} held` : `${held} of ${capacity}`;
}
