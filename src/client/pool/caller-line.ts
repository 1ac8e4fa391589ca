/** A waiting caller. {@link CallerLine} links the callers through these fields, so that each can leave at no cost. */
export abstract class LineEntry implements Due {
  heapIndex = -1;
  /** The lane that contains the caller. */
  lane?: Lane;
  ahead?: LineEntry;
  behind?: LineEntry;

  constructor(
    /** 1 is served first, as in Temporal's `Priority`. */
    readonly priorityKey: number,
    /** When the caller stops waiting; Infinity if it has no timeout. */
    readonly deadlineMs: number,
    /** When the caller came. */
    readonly sinceMs = 0,
  ) {}
}

/** Callers of one priority, by arrival. */
interface Lane {
  readonly priorityKey: number;
  first?: LineEntry;
  last?: LineEntry;
}

/** The waiting callers of this process, by priority, then by arrival. Adding, removing and taking the first cost the same however many wait. */
export class CallerLine<Caller extends LineEntry> {
  /** The lanes that contain callers, in the order of their priority. */
  private readonly lanes: Lane[] = [];
  private readonly deadlines = new DeadlineHeap<Caller>();
  private count = 0;

  get size(): number {
    return this.count;
  }

  get first(): Caller | undefined {
    return this.lanes[0]?.first as Caller | undefined;
  }

  /** When the first caller times out. */
  get dueMs(): number {
    return this.deadlines.first?.deadlineMs ?? Number.POSITIVE_INFINITY;
  }

  /** A caller whose time is up. */
  overdue(nowMs: number): Caller | undefined {
    const { first } = this.deadlines;
    return first && first.deadlineMs <= nowMs ? first : undefined;
  }

  add(caller: Caller): void {
    const lane = this.laneOf(caller.priorityKey);
    caller.lane = lane;
    const ahead = aheadOf(caller, lane);
    const behind = ahead ? ahead.behind : lane.first;
    caller.ahead = ahead;
    caller.behind = behind;
    if (ahead) ahead.behind = caller;
    else lane.first = caller;
    if (behind) behind.ahead = caller;
    else lane.last = caller;
    this.count++;
    if (caller.deadlineMs < Number.POSITIVE_INFINITY) this.deadlines.add(caller);
  }

  /** `false`: the caller does not wait here. */
  delete(caller: Caller): boolean {
    const { lane, ahead, behind } = caller;
    if (!lane) return false;
    if (ahead) ahead.behind = behind;
    else lane.first = behind;
    if (behind) behind.ahead = ahead;
    else lane.last = ahead;
    if (!lane.first) this.lanes.splice(this.lanes.indexOf(lane), 1);
    caller.lane = undefined;
    caller.ahead = undefined;
    caller.behind = undefined;
    this.count--;
    this.deadlines.delete(caller);
    return true;
  }

  /** Removes and returns the next caller. */
  shift(): Caller | undefined {
    const { first } = this;
    if (first) this.delete(first);
    return first;
  }

  private laneOf(priorityKey: number): Lane {
    const at = this.lanes.findIndex((lane) => lane.priorityKey >= priorityKey);
    const found = this.lanes[at];
    if (found?.priorityKey === priorityKey) return found;
    const lane: Lane = { priorityKey };
    this.lanes.splice(at < 0 ? this.lanes.length : at, 0, lane);
    return lane;
  }
}

/** The last caller that came no later. A caller that comes again is older than nearly all others; any other caller is the youngest. */
function aheadOf({ sinceMs }: LineEntry, { first, last }: Lane): LineEntry | undefined {
  if (!last || last.sinceMs <= sinceMs) return last;
  let ahead: LineEntry | undefined;
  for (let next = first; next && next.sinceMs <= sinceMs; next = next.behind) ahead = next;
  return ahead;
}

/** Something that is due at some time. The heap stores its index in it, so that it can be removed again. */
export interface Due {
  readonly deadlineMs: number;
  /** Written by the heap alone; -1 outside it. */
  heapIndex: number;
}

/** A binary heap by deadline: one timer for the earliest is enough for any number of waiters. */
export class DeadlineHeap<T extends Due> {
  private readonly items: T[] = [];

  get first(): T | undefined {
    return this.items[0];
  }

  add(item: T): void {
    this.items.push(item);
    this.rise(item, this.items.length - 1);
  }

  delete(item: T): void {
    const { heapIndex } = item;
    if (heapIndex < 0) return;
    item.heapIndex = -1;
    const last = this.items.pop() as T;
    if (last === item) return;
    this.rise(last, heapIndex);
    this.sink(last, last.heapIndex);
  }

  private rise(item: T, from: number): void {
    let index = from;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = this.items[above] as T;
      if (parent.deadlineMs <= item.deadlineMs) break;
      this.put(parent, index);
      index = above;
    }
    this.put(item, index);
  }

  private sink(item: T, from: number): void {
    let index = from;
    for (;;) {
      const left = this.items[2 * index + 1];
      const right = this.items[2 * index + 2];
      const child = right && left && right.deadlineMs < left.deadlineMs ? right : left;
      if (!child || child.deadlineMs >= item.deadlineMs) break;
      const below = child.heapIndex;
      this.put(child, index);
      index = below;
    }
    this.put(item, index);
  }

  private put(item: T, index: number): void {
    this.items[index] = item;
    item.heapIndex = index;
  }
}
