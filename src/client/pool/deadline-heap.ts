/** Something that is due at some time. The heap keeps its place in it, so that it can be taken out again. */
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
