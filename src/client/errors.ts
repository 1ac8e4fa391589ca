import { lossMessage, type PermitLoss, timeoutMessage } from '../shared/loss';
import type { PermitAddress } from '../shared/permit-id';

/** No permit came free within the acquire's `timeout`. `cause` is set when the server could not be asked at the end. */
export class PermitTimeoutError extends Error {
  override readonly name = 'PermitTimeoutError';

  constructor(
    readonly resource: string,
    readonly timeoutMs: number,
    options?: ErrorOptions,
  ) {
    super(
      options?.cause
        ? `No permit of "${resource}" was had within ${timeoutMs} ms: the server could not be reached (see cause).`
        : timeoutMessage(resource, timeoutMs),
      options,
    );
  }
}

/**
 * The permit ended before its holder released it, or its lease is about to end and no renewal gets through: somebody else
 * may hold the slot now, or will soon, so stop using the resource. It is also the reason of an aborted `permit.signal`.
 */
export class PermitLostError extends Error {
  override readonly name = 'PermitLostError';
  readonly resource: string;
  readonly slot: string;

  constructor(
    { resource, slot }: PermitAddress,
    /** The fencing token of the permit that was lost. */
    readonly runId: string,
    /** How it was lost. */
    readonly how: PermitLoss,
    /** What the operator said who revoked it. */
    readonly reason?: string,
    /** `cause`: why no renewal got through. */
    options?: ErrorOptions,
  ) {
    super(lossMessage({ resource, slot }, runId, how, reason), options);
    this.resource = resource;
    this.slot = slot;
  }
}
