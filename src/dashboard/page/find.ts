import type { HoldView, PartyView, ResourceView, SlotView, WaiterView } from '../page-protocol';

/** The slots, waiters and holds of a resource whose names contain this text, ignoring case. An empty text finds all. */
export function find(view: ResourceView, text: string): Pick<ResourceView, 'slots' | 'waiters' | 'holds'> {
  if (text === '') return view;
  const has = (names: (string | undefined)[]) => names.some((name) => name?.toLowerCase().includes(text.toLowerCase()));
  return {
    slots: view.slots.filter((slot) => has(namesOfSlot(slot))),
    waiters: view.waiters.filter((waiter) => has(namesOfWaiter(waiter))),
    holds: view.holds.filter((hold) => has(namesOfHold(hold))),
  };
}

/** Whether a name of the resource, its slots, waiters or holds contains this text. */
export function isFound(view: ResourceView, text: string): boolean {
  if (view.resource.toLowerCase().includes(text.toLowerCase())) return true;
  return Object.values(find(view, text)).some(({ length }) => length > 0);
}

function namesOfSlot({ slot, permit }: SlotView) {
  return permit ? [slot, ...namesOf(permit.holder), permit.purpose, permit.runId] : [slot];
}

function namesOfWaiter({ waiter, fairnessKey }: WaiterView) {
  return [...namesOf(waiter), fairnessKey];
}

function namesOfHold({ runId, slot, holder, purpose, outcome }: HoldView) {
  return [slot, ...namesOf(holder), purpose, runId, outcome];
}

function namesOf({ name, workflowType }: PartyView) {
  return [name, workflowType];
}
