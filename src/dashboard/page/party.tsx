import type { PartyView, Session } from '../wire';

/** A holder or waiter by name, with a link to its Workflow where there is one. */
export function Party({ party, session }: { party: PartyView; session: Session }) {
  const { name, workflowId, runId } = party;
  return (
    <WorkflowLink workflowId={workflowId} runId={runId} session={session} text={name}>
      {name}
    </WorkflowLink>
  );
}

interface WorkflowLinkProps {
  workflowId?: string;
  runId?: string;
  session: Session;
  /** Shown in full when the room is too small for it. */
  text: string;
  children: string;
}

/** To a Workflow in the Temporal Web UI; plain text when nobody knows where that is. */
export function WorkflowLink({ workflowId, runId, session, text, children }: WorkflowLinkProps) {
  const { ui, namespace } = session;
  if (!ui || !workflowId) {
    return (
      <span class="party" title={text}>
        {children}
      </span>
    );
  }
  const path = ['namespaces', namespace, 'workflows', workflowId, ...(runId ? [runId, 'history'] : [])];
  return (
    <a
      class="party"
      href={`${ui}/${path.map(encodeURIComponent).join('/')}`}
      title={`${text}: open in the Temporal Web UI`}
      target="_blank"
      rel="noreferrer"
    >
      {children}
    </a>
  );
}
