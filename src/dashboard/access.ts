import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Context, MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { refuse } from '../client/operators';
import { CSRF_HEADER } from './page-protocol';

/** How visitors of the dashboard are told from strangers. */
export interface Access {
  /** What to listen on. */
  host: string;
  /** What everybody must show; absent only on loopback. */
  token?: string;
  /** The token is a new one, which only the printed address can tell. */
  isTokenNew: boolean;
  /** What a page of ours sends with each change, and no page of others can know. */
  csrfToken: string;
}

const COOKIE = 'temporal-semaphore-session';
const MIN_TOKEN_LENGTH = 16;

/** Beyond loopback there is always a token: the one given, or a new one. */
export function resolveAccess(host = '127.0.0.1', token?: string): Access {
  if (token !== undefined && token.length < MIN_TOKEN_LENGTH) {
    refuse('token', `at least ${MIN_TOKEN_LENGTH} characters`, `${token.length}`);
  }
  const isTokenNew = token === undefined && !isLoopback(host);
  return { host, token: isTokenNew ? randomToken() : token, isTokenNew, csrfToken: randomToken() };
}

/** Whether a name or address, as in a URL, is this machine's own. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'));
}

/**
 * Without a token, refuses requests that were made for another name than this machine's own: a page of others whose name was
 * made to lead here (DNS rebinding) would otherwise count as ours. A token does that too, for a browser keeps its cookie by
 * name.
 */
export function checkHost({ token }: Access): MiddlewareHandler {
  return async (c, next) => {
    const host = hostnameOf(`http://${c.req.header('host') ?? ''}`);
    if (token === undefined && !(host && isLoopback(host))) return c.text('Wrong host.\n', 403);
    return await next();
  };
}

/** Other sites may link to the page, and nothing else: not even requests whose answers they could not read. */
export function checkSite(): MiddlewareHandler {
  return async (c, next) => {
    const site = c.req.header('sec-fetch-site') ?? 'none';
    const visit = c.req.method === 'GET' && c.req.header('sec-fetch-mode') === 'navigate';
    if (site !== 'same-origin' && site !== 'none' && !visit) return c.text('Cross-site request.\n', 403);
    return await next();
  };
}

/** Lets in visitors with the token: in the address of the first visit, which leaves a session in a cookie; or as a bearer. */
export function checkToken({ token }: Access): MiddlewareHandler {
  const session = token === undefined ? '' : sessionOf(token);
  return async (c, next) => {
    if (token === undefined) return await next();
    const given = c.req.query('token');
    if (given !== undefined && c.req.method === 'GET') {
      if (!equal(given, token)) return denied(c);
      // Lax, for a strict one would be missing right after the visit from a link elsewhere. Changes need more than it.
      setCookie(c, COOKIE, session, { httpOnly: true, sameSite: 'Lax', path: '/', secure: isHttps(c) });
      return c.redirect('/', 303); // out of the address bar, and of the history
    }
    const [, bearer] = /^Bearer (.+)$/i.exec(c.req.header('authorization') ?? '') ?? [];
    const isKnown = bearer === undefined ? equal(getCookie(c, COOKIE) ?? '', session) : equal(bearer, token);
    return isKnown ? await next() : denied(c);
  };
}

/** Lets only our own page change something: it says its origin, and knows a token that only our pages know. */
export function checkChange({ csrfToken }: Access): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header('origin');
    if (!origin || hostOf(origin) !== c.req.header('host')) return c.text('Another origin.\n', 403);
    if (!equal(c.req.header(CSRF_HEADER) ?? '', csrfToken)) return c.text('No or a wrong CSRF token.\n', 403);
    return await next();
  };
}

function denied(c: Context): Response {
  return c.text('This page needs a token. Open its address with ?token=<the token> at the end.\n', 401);
}

/** What a browser keeps instead of the token, which nobody can tell from it. */
function sessionOf(token: string): string {
  return createHmac('sha256', token).update(COOKIE).digest('base64url');
}

/** In the same time whatever differs, also the length. */
function equal(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

function randomToken(): string {
  return randomBytes(24).toString('base64url');
}

/** Behind a proxy that speaks TLS. */
function isHttps(c: Context): boolean {
  return c.req.header('x-forwarded-proto') === 'https';
}

function hostOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).host : undefined;
}

function hostnameOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}
