import {
  FENCING_TOKEN_HEADER,
  FencingToken,
  type FencingTokenSource,
  MalformedTokenError,
  MissingTokenError,
} from '../shared/fencing-token';
import { currentFencingToken } from './current-token';

/** Request headers: the `Headers` of `fetch`, or an object as in Node's `http` and most frameworks. */
export type RequestHeaders =
  | { get(name: string): string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/**
 * Makes the header that a request to a fencing service needs.
 *
 * @param token @default the {@link currentFencingToken}
 * @throws MissingTokenError when the caller gives no token and there is no current one
 * @throws MalformedTokenError when `token` is not a fencing token
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
 * Reads the token from a request's headers. A guard has yet to check it.
 *
 * @throws MissingTokenError when the request has no such header
 * @throws MalformedTokenError when it has more than one, or the header is not a fencing token
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
    throw new MissingTokenError(
      `The request has no "${FENCING_TOKEN_HEADER}" header. The sender adds it with fencingHeaders().`,
    );
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
  // Node writes names in lower case. Some gateways and test doubles do not.
  return Object.entries(headers)
    .filter(([name]) => name.toLowerCase() === FENCING_TOKEN_HEADER)
    .flatMap(([, value]) => value ?? []);
}

function isFetchHeaders(headers: RequestHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function';
}
