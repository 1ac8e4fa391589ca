import { monotonicMs } from '../client/server/clock';
import { QUERY_MS, type Server } from '../client/server/server';
import type { QueueView } from '../shared/protocol';
import { MAX_SLOTS, type Slots, slotNames } from '../shared/slots';
import { isCount } from '../shared/untyped';
import { areSlots } from '../shared/wire-input';
import type { ResourceSlot, SlotInspection } from './inspection';
import { ANSWERS_WITHIN_MS, type Asking, type Inspector, type Look } from './inspector';
import { isLineKnown } from './reader';
import { listHolders } from './visibility';
import { WorkerQueries } from './worker-queries';

/** A server allows few calls to visibility, and visibility is seconds late. */
const SEARCH_EVERY_MS = 10_000;

/**
 * Finds out how many slots a resource is deployed with. An operator may have named them. Otherwise the resource's queue reports them, while it
 * runs; otherwise the running permits state a capacity; otherwise the last answer counts. While the slots are unknown, a look asks for the
 * slots that were found held. It covers them too while a queue reports fewer slots, since callers may disagree.
 */
export class DeployedSlots {
  /** The source of the slots. What the queue or permits said before the last {@link find} is only remembered. */
  private source: 'operator' | 'queue' | 'memory';
  /** Whether the last {@link find} or look knew the slots: then the next one waits less long for the queue. */
  private wereKnown = false;
  /** The slots to look at while it is unknown how many there are. */
  private readonly asked = new Set<string>();
  /** Slots that were found held, which may be more than are known: an operator had added them, or callers disagree. */
  private readonly found = new Set<string>();
  /** The slots that looks have shown held while it was unknown how many there are. */
  private readonly seenHeld = new Set<string>();
  private searchAgainMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly server: Server,
    private readonly resource: string,
    private readonly inspector: Inspector,
    /** The slots that the operator has named, or otherwise those that the queue or permits named last. */
    private slots: Slots | undefined,
  ) {
    this.source = slots === undefined ? 'memory' : 'operator';
  }

  /** Whether an operator, the queue or permits have named the slots, now or earlier. */
  get areRemembered(): boolean {
    return this.slots !== undefined;
  }

  /** Adds a slot that was found held: the next look asks for it. */
  addSlot(slot: string): void {
    this.asked.add(slot);
  }

  /** Adds permits that were found: the next look asks for their slots, and for as many as they state. */
  addHeld(held: readonly ResourceSlot[]): void {
    for (const { slot } of held) this.addSlot(slot);
    this.heed(held);
  }

  /**
   * The slots; `undefined` if they are unknown. The resource may have been deployed again with other slots, so this asks its queue each
   * time, unless the operator has named them.
   *
   * @param search whether to ask visibility if the queue does not answer
   * @returns the queue too, if this has looked at it
   */
  async find(
    search: boolean,
    asking: Partial<Asking> = {},
  ): Promise<{ slots: Slots | undefined; queue?: Awaited<ReturnType<Inspector['queue']>> }> {
    if (this.source === 'operator') {
      this.keepAsFound();
      return { slots: this.slots };
    }
    const withinMs = this.wereKnown ? QUERY_MS : ANSWERS_WITHIN_MS;
    const { queries = new WorkerQueries(this.server, withinMs), servesMs = 0 } = asking;
    const queue = await this.inspector.queue({ queries, servesMs });
    const told = slotsOf(this.resource, queue.view);
    this.source = told === undefined ? 'memory' : 'queue';
    if (told !== undefined) {
      this.slots = told;
      this.keepAsFound();
    } else if (search) {
      await this.search();
    }
    const slots = this.areOutgrown() ? undefined : this.slots;
    this.wereKnown = slots !== undefined;
    return { slots, queue };
  }

  /** Looks at all slots, and once more if the permits that it has found state other slots. */
  async look(search: boolean, asking: Partial<Asking>): Promise<{ known: Slots | undefined; look: Look }> {
    const { slots: known } = await this.find(search, asking);
    if (search && this.source === 'queue') {
      await this.search(); // a caller with more slots than the waiters name may hold one that the queue does not know
      this.keepAsFound();
    }
    const slots = known === undefined ? this.askedSlots() : slotNames(known);
    const look = await this.inspector.look(slots, asking, this.found);
    // While the queue does not answer, an operator may have set more slots than the permits state.
    const stated = this.heed(look.slots, isLineKnown(look));
    if (stated === undefined && known === undefined) {
      return { known, look: { ...look, slots: this.onlySeenHeld(look.slots) } };
    }
    if (stated === undefined || stated === known) return { known, look };
    this.keepAsFound();
    return { known: stated, look: await this.inspector.look(slotNames(stated), asking, this.found) };
  }

  /** Takes the slots that these permits state, unless a better source has named them. @returns the slots that they state */
  private heed(held: readonly SlotInspection[], maySurpass = false): Slots | undefined {
    if (this.source !== 'memory') return undefined;
    const stated = statedCapacity(held, maySurpass);
    if (stated === undefined) return undefined;
    this.slots = stated;
    this.wereKnown = true;
    return stated;
  }

  /** Now that the slots are known: those that were found held may be others. */
  private keepAsFound(): void {
    for (const slot of this.asked) this.found.add(slot);
    this.asked.clear();
  }

  private async search(): Promise<void> {
    if (monotonicMs() < this.searchAgainMs) return;
    const held = await listHolders(this.server.client, this.resource, { limit: Number.POSITIVE_INFINITY });
    this.searchAgainMs = monotonicMs() + SEARCH_EVERY_MS;
    this.addHeld(held);
  }

  /** Whether a slot was seen held that the last answer did not name: the resource has been deployed again. */
  private areOutgrown(): boolean {
    if (this.slots === undefined) return false;
    const names = new Set(slotNames(this.slots));
    return [...this.asked].some((slot) => !names.has(slot));
  }

  private askedSlots(): string[] {
    const slots = [...this.asked].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    return slots.length > 0 ? slots : ['0'];
  }

  private onlySeenHeld(slots: SlotInspection[]): SlotInspection[] {
    for (const { slot, state } of slots) if (state !== 'free') this.seenHeld.add(slot);
    return slots.filter(({ slot }) => this.seenHeld.has(slot));
  }
}

/**
 * The capacity that the holders of these slots were configured with. When they differ, the largest number counts. Of slots with names, a
 * permit tells only how many there are.
 *
 * @param maySurpass whether more slots may be held, which an operator had added: then each of their permits must state the capacity too
 */
export function statedCapacity(slots: readonly SlotInspection[], maySurpass = false): number | undefined {
  const held = slots.filter(({ state, permit }) => permit && state !== 'drained');
  const marks = held.flatMap(({ permit }) => permit?.slots ?? []);
  const capacities = marks.filter((mark) => isCount(mark, MAX_SLOTS));
  if (capacities.length === 0 || capacities.length < marks.length) return undefined;
  const names = slotNames(Math.max(...capacities));
  const isCovered = ({ slot, permit }: SlotInspection) =>
    names.includes(slot) || (maySurpass && permit?.slots !== undefined);
  return held.every(isCovered) ? names.length : undefined;
}

/** The slots that the waiters, or an earlier operator, have named. When waiters differ, the largest number counts. */
function slotsOf(resource: string, view: QueueView | undefined): Slots | undefined {
  const named = view?.override ? [view.override.slots] : (view?.tickets ?? []).map(({ slots }) => slots);
  const sound = named.filter((slots) => areSlots(resource, slots));
  return sound.sort((a, b) => slotNames(b).length - slotNames(a).length)[0];
}
