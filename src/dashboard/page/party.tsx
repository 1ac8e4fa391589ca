import type { PartyView, Session } from '../page-protocol';
import { Cut } from './cut';

/** A holder or waiter by name, with a link to its Workflow where there is one. */
export function Party({ party, session }: { party: PartyView; session: Session }) {
  const { name } = party;
  return (
    <a class="party" title={name} {...linkTo(party, session)}>
      <Cut text={name} />
    </a>
  );
}

/** To a Workflow in the Temporal Web UI; nothing, which makes plain text of an `a`, when nobody knows where that is. */
export function linkTo({ workflowId, runId }: Pick<PartyView, 'workflowId' | 'runId'>, { ui, namespace }: Session) {
  if (!ui || !workflowId) return {};
  const path = ['namespaces', namespace, 'workflows', workflowId, ...(runId ? [runId, 'history'] : [])];
  return { href: `${ui}/${path.map(encodeURIComponent).join('/')}`, target: '_blank', rel: 'noreferrer' };
}
