import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { secureHeaders } from 'hono/secure-headers';
import { streamSSE } from 'hono/streaming';
import { InvalidOptionsError } from '../client';
import { messageOf } from '../client/server/errors';
import { ForeignWorkflowError, NotHeldError, StaleOverrideError } from '../operator';
import { type Access, checkChange, checkHost, checkSite, checkToken } from './access';
import { act, parseAction } from './action';
import { sendEvents } from './events';
import type { Hub } from './hub';
import { PAGE_FILES, type PageFiles } from './page-files';
import { KEY_PARAMETER, type Session } from './page-protocol';

export interface AppOptions {
  hub: Hub;
  access: Access;
  session: Omit<Session, 'csrfToken'>;
  page: PageFiles;
}

const MAX_BODY_BYTES = 10_000;
const MAX_PAGES = 50;

const NONE = ["'none'"];
const SELF = ["'self'"];

/** The dashboard's HTTP side: the page, its events and its actions. */
export function createApp({ hub, access, session, page }: AppOptions): Hono {
  const app = new Hono();
  // For programs that supervise or monitor this process, and have no token. They come before the checks that refuse a visitor.
  app.get('/healthz', (c) => c.text('ok\n'));
  app.get('/readyz', async (c) =>
    (await hub.isAnswered()) ? c.text('ok\n') : c.text('Temporal does not answer.\n', 503),
  );
  app.use(
    secureHeaders({
      contentSecurityPolicy: {
        defaultSrc: NONE,
        scriptSrc: SELF,
        styleSrc: SELF,
        imgSrc: SELF,
        connectSrc: SELF,
        baseUri: NONE,
        formAction: NONE,
        frameAncestors: NONE,
        // No name becomes markup, even by a mistake in the page.
        requireTrustedTypesFor: ["'script'"],
        trustedTypes: NONE,
      },
      crossOriginResourcePolicy: 'same-origin',
      referrerPolicy: 'no-referrer',
      xFrameOptions: 'DENY',
      // This header would forbid plain HTTP for everything else on this machine.
      strictTransportSecurity: false,
    }),
  );
  app.use(async (c, next) => {
    await next();
    c.header('cache-control', 'no-store');
  });
  app.use(checkHost(access), checkSite(), checkToken(access));

  app.get('/', (c) => c.html(page.html));
  app.get(`/${PAGE_FILES.script}`, (c) =>
    c.body(page.script, 200, { 'content-type': 'text/javascript; charset=utf-8' }),
  );
  app.get(`/${PAGE_FILES.style}`, (c) => c.body(page.style, 200, { 'content-type': 'text/css; charset=utf-8' }));
  app.get(`/${PAGE_FILES.licences}`, (c) => c.text(page.licences));
  app.get(`/${PAGE_FILES.icon}`, (c) => c.body(page.icon, 200, { 'content-type': 'image/svg+xml' }));

  let pages = 0;
  app.get('/events', (c) => {
    // Hono also runs GET's handler for a HEAD, and no client would ever read or close that body.
    if (c.req.method === 'HEAD') return c.body(null, 200, { 'content-type': 'text/event-stream' });
    if (pages >= MAX_PAGES) return c.text('Too many pages are open.\n', 503);
    pages++;
    return streamSSE(c, async (stream) => {
      try {
        await sendEvents(stream, hub, { ...session, csrfToken: access.csrfToken }, c.req.query(KEY_PARAMETER));
      } finally {
        pages--;
      }
    });
  });

  app.post('/actions', checkChange(access), bodyLimit({ maxSize: MAX_BODY_BYTES }), async (c) => {
    if (session.readOnly) return c.json({ error: 'This dashboard is read-only.' }, 403);
    try {
      const action = parseAction(await c.req.json());
      const operator = hub.operator(action.resource);
      if (!operator) return c.json({ error: 'This dashboard has no such resource.' }, 404);
      await act(hub, operator, action);
      return c.json({});
    } catch (error) {
      return c.json({ error: messageOf(error) }, statusOf(error));
    }
  });
  return app;
}

function statusOf(error: unknown): 400 | 409 | 502 {
  if (error instanceof InvalidOptionsError || error instanceof SyntaxError) return 400;
  return [ForeignWorkflowError, NotHeldError, StaleOverrideError].some((of) => error instanceof of) ? 409 : 502;
}
