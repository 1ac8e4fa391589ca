/** The part of the wire protocol by which permit pools share slots. Only a permit pool sends it. Rules as in `protocol`. */

/** On a ticket: the permit pool that waits, and how many permits it would hold with this one. */
export interface PoolShare {
  /** Drawn anew for each pool. */
  id: string;
  /** From 1. Another pool gives a permit back to this ticket only if that leaves it no fewer than this pool had. */
  nth: number;
}

export interface PoolTicket {
  /** Absent for an acquirer of one permit: every permit pool gives back to that. */
  pool?: PoolShare;
}

export interface PoolMemo {
  /** The ID of the permit pool that holds the permit, and hands it from caller to caller in its process. */
  pool?: string;
}
