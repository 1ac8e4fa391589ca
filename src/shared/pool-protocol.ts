/** The part of the wire protocol by which permit pools share slots, and sets say their size. Rules as in `protocol`. */

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
}

export interface PoolMemo {
  /** The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. */
  pool?: string;
}
