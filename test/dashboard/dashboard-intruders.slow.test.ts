import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { CSRF_HEADER } from '../../src/dashboard/page-protocol';
import { useBrowser } from '../support/browser';
import { useDashboards } from '../support/dashboards';
import { startHolding } from '../support/holders';
import { operatorOf } from '../support/operators';
import { useTemporal } from '../support/temporal';

const temporal = useTemporal({ shared: true });
const browser = useBrowser();
const { show } = useDashboards(temporal);

/** What every one of these intruders is after: the permit of somebody who holds slot 0. */
async function prey() {
  const resource = temporal.resource();
  const { handle, runId } = await startHolding(temporal, { resource, semaphore: { capacity: 1 } });
  const { url, pool } = await show(resource, { capacity: 1 });
  const body = JSON.stringify({ do: 'revoke', resource, slot: '0', runId, reason: '' });
  const assertUnharmed = async () => {
    const { slots } = await operatorOf(pool).inspect({ recent: 0 });
    assert.equal(slots[0]?.permit?.runId, runId);
    await handle.signal('finish');
    await handle.result();
  };
  return { url, body, assertUnharmed };
}

/** A request as no browser would send it. */
async function post(url: string, body: string, headers: Record<string, string>): Promise<number | undefined> {
  const sent = request(`${url}actions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
  });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  answer.resume();
  return answer.statusCode;
}

/** Reads from the page's own events what a page of ours knows. */
async function csrfTokenOf(url: string): Promise<string> {
  const stopped = new AbortController();
  const answer = await fetch(`${url}events`, { signal: stopped.signal });
  const chunk = await answer.body?.getReader().read();
  stopped.abort();
  const [, token] = /"csrfToken":"([^"]+)"/.exec(Buffer.from(chunk?.value ?? []).toString()) ?? [];
  assert.ok(token);
  return token;
}

for (const host of ['localhost', '127.0.0.1']) {
  test(`a page on another port of ${host} gets nothing done, and learns nothing`, async (t) => {
    const { url, body, assertUnharmed } = await prey();
    const evil = createServer((_, answer) => answer.end('<title>evil</title>')).listen(0, '127.0.0.1');
    t.after(() => evil.close());
    await once(evil, 'listening');
    const page = await browser.openUnwatched(`http://${host}:${(evil.address() as AddressInfo).port}/`);

    const refused: number[] = [];
    page.on('response', (answer) => {
      if (answer.url() === `${url}actions`) refused.push(answer.status());
    });
    const outcome = await page.evaluate(`(async () => {
      const url = ${JSON.stringify(url)}, body = ${JSON.stringify(body)};
      const attempt = (path, init) => fetch(url + path, init).then(({ type }) => type, () => 'failed');
      const json = { 'content-type': 'application/json', '${CSRF_HEADER}': 'x' };
      return [
        await attempt('actions', { method: 'POST', mode: 'no-cors', body }),
        await attempt('actions', { method: 'POST', headers: json, body }),
        await attempt('events', {}),
      ];
    })()`);
    assert.deepEqual(outcome, ['failed', 'failed', 'failed']);
    await page.evaluate(`(() => {
      const form = document.createElement('form');
      Object.assign(form, { method: 'POST', enctype: 'text/plain', action: ${JSON.stringify(`${url}actions`)} });
      document.body.append(form);
      form.submit();
    })()`);
    await page.waitForURL(`${url}actions`);
    assert.deepEqual(refused, [403]);
    await assertUnharmed();
  });
}

test('a forged request is refused: without the CSRF token, without an origin, under another name', async () => {
  const { url, body, assertUnharmed } = await prey();
  const csrf = { [CSRF_HEADER]: await csrfTokenOf(url) };
  const origin = { origin: new URL(url).origin };
  assert.equal(await post(url, body, origin), 403);
  assert.equal(await post(url, body, csrf), 403);
  assert.equal(await post(url, body, { ...csrf, origin: 'http://evil.example' }), 403);
  const rebound = { host: `evil.example:${new URL(url).port}`, origin: `http://evil.example:${new URL(url).port}` };
  assert.equal(await post(url, body, { ...csrf, ...rebound }), 403);
  assert.equal(await post(url, '{}', { ...csrf, ...origin }), 400, 'with all of them, it is heard');
  await assertUnharmed();
});
