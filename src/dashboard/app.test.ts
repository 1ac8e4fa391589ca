import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveAccess } from './access';
import { createApp } from './app';
import { Hub } from './hub';
import { CSRF_HEADER } from './page-protocol';
import type { ResourceFinder, ResourceOperator } from './poller';

const ORIGIN = 'http://127.0.0.1:8244';
const TOKEN = 'a token of enough characters';
const PAGE = { html: '<p>page</p>', script: 'script', style: 'style', icon: '<svg/>', licences: 'MIT' };

function dashboard({
  host = '127.0.0.1',
  token,
  readOnly = false,
  askServer,
}: {
  host?: string;
  token?: string;
  readOnly?: boolean;
  askServer?: ResourceFinder['askServer'];
} = {}) {
  const done: unknown[] = [];
  const noted =
    (what: string) =>
    async (...args: unknown[]) =>
      void done.push([what, ...args]);
  const operator: ResourceOperator = {
    resource: 'gpu',
    inspect: () => new Promise(() => undefined),
    revoke: noted('revoke'),
    resize: noted('resize'),
    pause: noted('pause'),
    resume: noted('resume'),
  };
  const access = resolveAccess(host, token);
  const session = { namespace: 'default', address: 'localhost:7233', readOnly };
  const app = createApp({
    hub: new Hub([operator], { find: async () => [], forget: () => undefined, askServer }),
    access,
    session,
    page: PAGE,
  });
  const get = (path: string, headers: Record<string, string> = {}) =>
    app.request(path, { headers: { host: '127.0.0.1:8244', ...headers } });
  const head = (path: string) => app.request(path, { method: 'HEAD', headers: { host: '127.0.0.1:8244' } });
  const post = (body: unknown, headers: Record<string, string | undefined> = {}) => {
    const given = { host: '127.0.0.1:8244', origin: ORIGIN, [CSRF_HEADER]: access.csrfToken, ...headers };
    const kept = Object.entries(given).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    );
    return app.request('/actions', { method: 'POST', headers: Object.fromEntries(kept), body: JSON.stringify(body) });
  };
  return { access, done, get, head, post };
}

const PAUSE = { do: 'pause', resource: 'gpu', reason: 'maintenance' };

test('whoever keeps the process running learns that it lives, by any name and without a token, and nothing else', async () => {
  for (const { get } of [dashboard(), dashboard({ host: '0.0.0.0', token: TOKEN })]) {
    const answer = await get('/healthz', { host: '10.1.2.3:8244', 'sec-fetch-site': 'cross-site' });
    assert.deepEqual([answer.status, await answer.text()], [200, 'ok\n']);
    assert.notEqual((await get('/', { host: '10.1.2.3:8244' })).status, 200);
  }
});

test('whoever watches it learns whether Temporal answers, for which the server is asked once a second at most', async () => {
  for (const [answers, status, text] of [
    [true, 200, 'ok\n'],
    [false, 503, 'Temporal does not answer.\n'],
  ] as const) {
    let asked = 0;
    const { get } = dashboard({
      host: '0.0.0.0',
      token: TOKEN,
      askServer: async () => {
        asked++;
        if (!answers) throw new Error('UNAVAILABLE');
      },
    });
    const all = await Promise.all(Array.from({ length: 20 }, () => get('/readyz', { host: '10.1.2.3:8244' })));
    for (const answer of all) assert.deepEqual([answer.status, await answer.text()], [status, text]);
    assert.equal(asked, 1);
    assert.equal((await get('/healthz')).status, 200);
  }
});

test('a page of ours may act, on what the operator saw', async () => {
  const { post, done } = dashboard();
  const revoke = { do: 'revoke', resource: 'gpu', slot: '1', runId: 'r1', reason: 'stuck' };
  for (const body of [PAUSE, revoke, { do: 'resize', resource: 'gpu', capacity: 5, ifVersion: 2, reason: '' }]) {
    assert.equal((await post(body)).status, 200);
  }
  assert.deepEqual(done, [
    ['pause', { ifVersion: undefined, reason: 'maintenance' }],
    ['revoke', '1', { runId: 'r1', reason: 'stuck' }],
    ['resize', 5, { ifVersion: 2, reason: undefined }],
  ]);
});

for (const [what, headers] of [
  ['another origin', { origin: 'http://evil.example' }],
  ['another port of this machine', { origin: 'http://127.0.0.1:9999' }],
  ['no origin', { origin: undefined }],
  ['an opaque origin', { origin: 'null' }],
  ['a cross-site request', { 'sec-fetch-site': 'cross-site' }],
  ['another origin of the same site', { 'sec-fetch-site': 'same-site' }],
  ['no CSRF token', { [CSRF_HEADER]: undefined }],
  ['a wrong CSRF token', { [CSRF_HEADER]: 'x' }],
  ['a name that was made to lead here', { host: 'evil.example:8244', origin: 'http://evil.example:8244' }],
  ['a name that only begins like ours', { host: '127.0.0.1.evil.example' }],
] as const) {
  test(`refused: ${what}`, async () => {
    const { post, done } = dashboard();
    assert.equal((await post(PAUSE, headers)).status, 403);
    assert.deepEqual(done, []);
  });
}

test('bad requests are told what was expected, and do nothing', async () => {
  const { post, done } = dashboard();
  for (const [body, status, message] of [
    [{ ...PAUSE, do: 'delete' }, 400, /do: expected revoke, resize, pause or resume, got .*delete/],
    [{ ...PAUSE, reason: 7 }, 400, /reason: expected a string, got 7/],
    [{ do: 'resize', resource: 'gpu', capacity: '5', reason: '' }, 400, /capacity: expected a whole number/],
    [{ do: 'revoke', resource: 'gpu', slot: '0', reason: '' }, 400, /runId: expected a string/],
    [[], 400, /resource/],
    [null, 400, /an object/],
    [{ ...PAUSE, resource: 'other' }, 404, /no such resource/],
    [{ ...PAUSE, reason: 'x'.repeat(20_000) }, 413, /./],
  ] as const) {
    const answer = await post(body);
    assert.equal(answer.status, status);
    assert.match(await answer.text(), message);
  }
  assert.deepEqual(done, []);
});

test('read-only shows and does nothing', async () => {
  const { post, done } = dashboard({ readOnly: true });
  assert.equal((await post(PAUSE)).status, 403);
  assert.deepEqual(done, []);
});

test('beyond loopback, everybody needs the token: from the address once, then by cookie, or as a bearer', async () => {
  const { get, access } = dashboard({ host: '0.0.0.0' });
  assert.ok(access.token && access.token.length >= 32, 'one is made');
  for (const path of ['/', '/page.js', '/events', '/?token=wrong']) assert.equal((await get(path)).status, 401, path);
  assert.equal((await get('/', { authorization: 'Bearer wrong' })).status, 401);
  assert.equal((await get('/', { authorization: `Bearer ${access.token}` })).status, 200);

  const visit = await get(`/?token=${access.token}`, { host: 'box.example:8244' });
  assert.equal(visit.status, 303);
  assert.equal(visit.headers.get('location'), '/');
  const cookie = visit.headers.get('set-cookie') ?? '';
  assert.ok(!cookie.includes(access.token), 'who reads the cookie does not have the token');
  assert.equal((await get('/', { authorization: `Bearer ${/=([^;]+)/.exec(cookie)?.[1]}` })).status, 401);
  assert.match(cookie, /; HttpOnly/);
  assert.match(cookie, /; SameSite=Lax/);
  assert.equal((await get('/', { host: 'box.example:8244', cookie: cookie.split(';')[0] ?? '' })).status, 200);
});

test('on loopback a token is asked for only if one was given; a short one is refused', async () => {
  assert.equal((await dashboard().get('/')).status, 200);
  const { get } = dashboard({ token: TOKEN });
  assert.equal((await get('/')).status, 401);
  assert.equal((await get('/', { authorization: `Bearer ${TOKEN}` })).status, 200);
  assert.equal((await get('/', { authorization: `Bearer ${TOKEN}`, host: 'behind-a-proxy.example' })).status, 200);
  assert.throws(() => resolveAccess('127.0.0.1', 'short'), /token: expected at least 16 characters/);
});

test('however often somebody asks for the head of the events, pages still get them', async () => {
  const { get, head } = dashboard();
  for (let count = 0; count < 60; count++) assert.equal((await head('/events')).status, 200);
  const events = await get('/events');
  assert.equal(events.status, 200);
  await events.body?.cancel();
});

test('the licences of what the script has in it can be read', async () => {
  assert.equal(await (await dashboard().get('/licences.txt')).text(), PAGE.licences);
});

test('everything forbids what the page does not need', async () => {
  const { get } = dashboard();
  for (const path of ['/', '/page.js', '/nothing']) {
    const { headers } = await get(path);
    const policy = headers.get('content-security-policy') ?? '';
    for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
      assert.ok(policy.includes(rule), `${path}: ${rule} in ${policy}`);
    }
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.equal(headers.get('cache-control'), 'no-store');
    assert.equal(headers.get('access-control-allow-origin'), null);
  }
});

test('other sites may link to the page, but neither embed nor fetch anything', async () => {
  const { get } = dashboard();
  const from = { 'sec-fetch-site': 'cross-site' };
  assert.equal((await get('/', { ...from, 'sec-fetch-mode': 'navigate' })).status, 200);
  assert.equal((await get('/events', { ...from, 'sec-fetch-mode': 'cors' })).status, 403);
  assert.equal((await get('/page.js', { ...from, 'sec-fetch-mode': 'no-cors' })).status, 403);
});
