import type { PartyView, Session } from '../page-protocol';

/** How many characters stay at the end: IDs differ there more often than in the middle. */
const END = 8;

/** A name that is cut in its middle when there is too little room. */
export function Cut({ text }: { text: string }) {
  const characters = [...text];
  const at = Math.max(0, characters.length - END);
  return (
    <span class="cut">
      <span>{characters.slice(0, at).join('')}</span>
      <span>{characters.slice(at).join('')}</span>
    </span>
  );
}

/** A holder or waiter by name, with a link to its Workflow where there is one. */
export function Party({ party, session }: { party: PartyView; session: Session }) {
  const { name } = party;
  return (
    <a class="party" title={name} {...linkTo(party, session)}>
      <Cut text={name} />
    </a>
  );
}

/** The attributes of a link to a Workflow in the Temporal Web UI; none when its address is unknown: an `a` is then plain text. */
export function linkTo({ workflowId, runId }: Pick<PartyView, 'workflowId' | 'runId'>, { ui, namespace }: Session) {
  if (!ui || !workflowId) return {};
  const path = ['namespaces', namespace, 'workflows', workflowId, ...(runId ? [runId, 'history'] : [])];
  return { href: `${ui}/${path.map(encodeURIComponent).join('/')}`, target: '_blank', rel: 'noreferrer' };
}
