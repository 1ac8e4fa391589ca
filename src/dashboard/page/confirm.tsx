import { useEffect, useRef, useState } from 'preact/hooks';
import { MAX_REASON_LENGTH } from '../../shared/protocol';
import type { ResourceView } from '../page-protocol';
import { send } from './store';

/** The action to confirm, with the state that the operator saw. */
export type Question = { resource: string } & (
  | { do: 'revoke'; slot: string; runId: string; holder: string }
  | { do: 'resize'; capacity: number; version: number }
  | { do: 'pause' | 'resume'; version: number }
);

/** Lets the operator act; absent on a read-only page. */
export interface Act {
  ask: (question: Question) => void;
  isCurrent: boolean;
}

interface ConfirmProps {
  question: Question;
  /** The resource as it is now. */
  view?: ResourceView;
  /** Whether the view is current. */
  isCurrent: boolean;
  csrfToken: string;
  /** @param message what became of it */
  close: (message?: string) => void;
}

export function Confirm({ question, view, isCurrent, csrfToken, close }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState('');
  const [capacity, setCapacity] = useState(question.do === 'resize' ? question.capacity : 0);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState('');
  useEffect(() => dialog.current?.showModal(), []);
  const words = wordsOf(question);
  const over = isCurrent && isOver(question, view);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure('');
    const failed = await send(actionOf(question, reason, capacity), csrfToken);
    setBusy(false);
    // A browser closes a dialog at the second Esc, whatever the page says.
    if (failed === undefined || !dialog.current) close(failed ?? words.done);
    else setFailure(failed);
  };

  return (
    <dialog
      ref={dialog}
      aria-labelledby="question"
      onCancel={(event) => busy && event.preventDefault()}
      onClose={() => close()}
    >
      <form onSubmit={submit}>
        <h2 id="question">{words.title}</h2>
        <p>{words.text}</p>
        {question.do === 'resize' && (
          <label>
            Capacity
            <input
              type="number"
              min={1}
              max={1000}
              step={1}
              required
              value={capacity}
              onInput={({ currentTarget }) => setCapacity(currentTarget.valueAsNumber)}
            />
          </label>
        )}
        {question.do !== 'resume' && (
          <label>
            Reason
            <input
              type="text"
              maxLength={MAX_REASON_LENGTH}
              placeholder={question.do === 'revoke' ? 'shown to the holder' : 'shown to operators'}
              value={reason}
              onInput={({ currentTarget }) => setReason(currentTarget.value)}
            />
          </label>
        )}
        {over && <p class="problem">This permit has ended in the meantime.</p>}
        {!isCurrent && <p class="problem">This page is out of date. You can continue when it is current.</p>}
        {failure && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
        <p class="actions">
          <button type="button" disabled={busy} onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={words.danger ? 'danger' : 'primary'} disabled={busy || over || !isCurrent}>
            {words.verb}
          </button>
        </p>
      </form>
    </dialog>
  );
}

function wordsOf(question: Question) {
  const { resource } = question;
  switch (question.do) {
    case 'revoke':
      return {
        title: `Revoke slot ${question.slot} of ${resource}?`,
        text: `${question.holder} loses its permit at once, and is told why. The slot goes to the next waiter.`,
        verb: 'Revoke',
        done: `Slot ${question.slot} of ${resource} was taken from ${question.holder}.`,
        danger: true,
      };
    case 'resize':
      return {
        title: `Resize ${resource}?`,
        text: 'No holder loses its permit: surplus slots go out of use as they come free. The new size lasts until the next change.',
        verb: 'Resize',
        done: `${resource} was resized.`,
        danger: false,
      };
    case 'pause':
      return {
        title: `Pause ${resource}?`,
        text: 'Holders keep their permits. No caller gets a new one until you resume.',
        verb: 'Pause',
        done: `${resource} is paused.`,
        danger: true,
      };
    case 'resume':
      return {
        title: `Resume ${resource}?`,
        text: 'Waiters get permits again, in their order.',
        verb: 'Resume',
        done: `${resource} gives permits again.`,
        danger: false,
      };
  }
}

function actionOf(question: Question, reason: string, capacity: number): Parameters<typeof send>[0] {
  const { resource } = question;
  switch (question.do) {
    case 'revoke':
      return { do: 'revoke', resource, slot: question.slot, runId: question.runId, reason };
    case 'resize':
      return { do: 'resize', resource, capacity, ifVersion: question.version, reason };
    case 'pause':
      return { do: 'pause', resource, ifVersion: question.version, reason };
    case 'resume':
      return { do: 'resume', resource, ifVersion: question.version };
  }
}

/** Whether the permit in question has ended: another holder may have its slot. */
function isOver(question: Question, view: ResourceView | undefined): boolean {
  if (question.do !== 'revoke') return false;
  return view?.slots.find(({ slot }) => slot === question.slot)?.permit?.runId !== question.runId;
}
