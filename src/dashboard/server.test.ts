import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveAccess } from './access';
import { startDashboard } from './server';

const PAGE = { html: '', script: '', style: '', icon: '', licences: '' };
const SESSION = { namespace: 'default', address: 'localhost:7233', readOnly: false };

for (const [what, token, isPrinted] of [
  ['a token that was given stays out of the address that is printed', 'a-token-of-enough-characters', false],
  ['a token that was made is in it, since nobody knows it', undefined, true],
] as const) {
  test(what, async (t) => {
    const access = resolveAccess('0.0.0.0', token);
    const dashboard = await startDashboard({ operators: [], access, session: SESSION, page: PAGE });
    t.after(() => dashboard.close());
    assert.equal(new URL(dashboard.url).searchParams.get('token'), isPrinted ? access.token : null);
  });
}
