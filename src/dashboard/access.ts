import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Context, MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { refuse } from '../shared/check';
import { CSRF_HEADER } from './page-protocol';

/** The visitors that the dashboard admits, and how it recognises them. */
export interface Access {
  /** The address to listen on. */
  host: string;
  /** The token that every visitor needs; absent only on loopback. */
  token?: string;
  /** Whether the token is new, so that the printed address must include it. */
  isTokenNew: boolean;
  /** Our page sends it with each change. No other site's page can know it. */
  csrfToken: string;
}

/** Before the session's first characters: to a browser, all ports of a host are one site, and each may have a dashboard. */
const COOKIE = 'temporal-semaphore-session';
const MIN_TOKEN_LENGTH = 16;

/** Beyond loopback there is always a token: the given one, or a new one. @throws InvalidOptionsError for a short token */
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
 * Without a token, refuses requests for any name but this machine's own. Otherwise an attacker could point a name of their own at
 * this machine (DNS rebinding), and their page would count as ours. A token protects too: a browser sends its cookie only to
 * the name that has set it.
 */
export function checkHost({ token }: Access): MiddlewareHandler {
  return async (c, next) => {
    const host = hostnameOf(`http://${c.req.header('host') ?? ''}`);
    if (token === undefined && !(host && isLoopback(host))) return c.text('Wrong host.\n', 403);
    return await next();
  };
}

/** Other sites may link to the page. All their other requests are refused, even those whose answers they could not read. */
export function checkSite(): MiddlewareHandler {
  return async (c, next) => {
    const site = c.req.header('sec-fetch-site') ?? 'none';
    const visit = c.req.method === 'GET' && c.req.header('sec-fetch-mode') === 'navigate';
    if (site !== 'same-origin' && site !== 'none' && !visit) return c.text('Cross-site request.\n', 403);
    return await next();
  };
}

/** Lets in visitors with the token. A browser gives it in the address of its first visit, and then has a cookie. Programs give it as a bearer token. */
export function checkToken({ token }: Access): MiddlewareHandler {
  const session = token === undefined ? '' : sessionOf(token);
  const cookie = `${COOKIE}-${session.slice(0, 8)}`;
  return async (c, next) => {
    if (token === undefined) return await next();
    const given = c.req.query('token');
    if (given !== undefined && c.req.method === 'GET') {
      if (!equal(given, token)) return denied(c);
      // Lax: a strict cookie would be missing right after a visit from another site's link. Changes need more than the cookie.
      setCookie(c, cookie, session, { httpOnly: true, sameSite: 'Lax', path: '/', secure: isHttps(c) });
      return c.redirect('/', 303); // so that the token leaves the address bar and the browser's history
    }
    const [, bearer] = /^Bearer (.+)$/i.exec(c.req.header('authorization') ?? '') ?? [];
    const isKnown = bearer === undefined ? equal(getCookie(c, cookie) ?? '', session) : equal(bearer, token);
    return isKnown ? await next() : denied(c);
  };
}

/** Lets only our own page change something: it names its origin, and knows a token that only our pages know. */
export function checkChange({ csrfToken }: Access): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header('origin');
    if (!origin || hostOf(origin) !== c.req.header('host')) return c.text('Another origin.\n', 403);
    if (!equal(c.req.header(CSRF_HEADER) ?? '', csrfToken)) return c.text('Missing or wrong CSRF token.\n', 403);
    return await next();
  };
}

function denied(c: Context): Response {
  return c.text('This page needs a token. Open its address with ?token=<the token> at the end.\n', 401);
}

/** The cookie's value, from which the token can't be computed. */
function sessionOf(token: string): string {
  return createHmac('sha256', token).update(COOKIE).digest('base64url');
}

/** Takes the same time wherever the texts differ, in length too. */
function equal(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

function randomToken(): string {
  return randomBytes(24).toString('base64url');
}

/** Whether a proxy in front of us speaks TLS. */
function isHttps(c: Context): boolean {
  return c.req.header('x-forwarded-proto') === 'https';
}

function hostOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).host : undefined;
}

function hostnameOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}
