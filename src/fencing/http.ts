import { MalformedTokenError, MissingTokenError } from '../shared/fencing-errors';
import { FENCING_TOKEN_HEADER, FencingToken, type FencingTokenSource } from '../shared/fencing-token';
import { currentFencingToken } from './current-token';

/** Request headers as `fetch` has them (`Headers`), or as Node's `http` and most frameworks do (an object). */
export type RequestHeaders =
  | { get(name: string): string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/**
 * The header to send along to a service that fences.
 *
 * @param token @default the {@link currentFencingToken}
 * @throws MissingTokenError when none is given and there is no current one
 * @throws MalformedTokenError when it is no token
 *
 * @example
 * ```ts
 * await fetch(url, { method: 'POST', body, headers: { ...fencingHeaders(), 'content-type': 'application/json' } });
 * ```
 */
export function fencingHeaders(
  token: FencingTokenSource = currentFencingToken(),
): Record<typeof FENCING_TOKEN_HEADER, string> {
  return { [FENCING_TOKEN_HEADER]: FencingToken.from(token).toString() };
}

/**
 * Reads the token that a request carries, for a guard to check.
 *
 * @throws MissingTokenError when the request has none
 * @throws MalformedTokenError when it has more than one, or something else
 *
 * @example
 * ```ts
 * await fence.transaction(pool, fencingTokenOf(request.headers), async ({ client }) => {
 *   await client.query('UPDATE devices SET state = $1', ['on']);
 * });
 * ```
 */
export function fencingTokenOf(headers: RequestHeaders): FencingToken {
  const values = headerValues(headers);
  if (values.length === 0) {
    throw new MissingTokenError(`The request has no "${FENCING_TOKEN_HEADER}" header; send fencingHeaders() with it.`);
  }
  const [value] = values;
  if (values.length > 1 || value === undefined) throw new MalformedTokenError(values.join(', '), 'one header');
  return FencingToken.parse(value);
}

function headerValues(headers: RequestHeaders): readonly string[] {
  if (isFetchHeaders(headers)) {
    const value = headers.get(FENCING_TOKEN_HEADER);
    return value === null ? [] : [value];
  }
  // Node gives names in lower case; gateways and test doubles do not always.
  return Object.entries(headers)
    .filter(([name]) => name.toLowerCase() === FENCING_TOKEN_HEADER)
    .flatMap(([, value]) => value ?? []);
}

function isFetchHeaders(headers: RequestHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function';
}
