/**
 * The part of the wire protocol by which permit pools share slots, and sets say their size and pass priorities on. Rules as in
 * `protocol`.
 */

/** On a ticket: the permit pool that waits, and how many permits it would hold with this one. */
export interface PoolShare {
  /** Drawn anew for each pool. */
  id: string;
  /** From 1. Fewer go first. Another pool gives a permit back to this ticket only if that then has no more than the giver had. */
  nth: number;
}

export interface PoolTicket {
  /** Absent for an acquirer of one permit: every permit pool gives back to that. */
  pool?: PoolShare;
  /** How many permits the accumulator wants in all. While an operator has left fewer, it gets no place: a turn without a slot. */
  permits?: number;
  /** How many of them the accumulator keeps already. One that keeps any comes before all that keep none. */
  kept?: number;
  /** Other resources of which the caller keeps a permit while it waits. It has the best priority of those who wait for them, too. */
  inherits?: string[];
}

/** A signal from a queue to one in whose line its resource's holders may wait: whoever keeps a permit of it has this priority, too. */
export const INHERIT = 'inherit';

export interface InheritNotice {
  resource: string;
  priorityKey: number;
}

/** A signal from a queue to that of a resource of which a caller in its line keeps a permit: tell me the best priority by `inherit`. */
export const ASK_PRIORITY = 'ask-priority';

export interface PriorityQuestion {
  /** That of the queue that asks. */
  resource: string;
}

export interface PoolMemo {
  /** The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. */
  pool?: string;
}
