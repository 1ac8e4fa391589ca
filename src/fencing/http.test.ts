import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FencingToken, MalformedTokenError, MissingTokenError } from '../shared/fencing-token';
import { currentFencingToken, withFencingToken } from './current-token';
import { fencingHeaders, fencingTokenOf } from './http';

const token = FencingToken.from({ resource: 'gpu: ä/💡', slot: 'a b', runId: '01890a5d-ac96-774b-bcce-b302099a8057' });
const text = token.toString();

test('a token goes through request headers of every kind', () => {
  const sent = fencingHeaders(token);
  for (const headers of [sent, new Headers(sent), { 'Fencing-Token': text }, { 'fencing-token': [text] }]) {
    assert.deepEqual(fencingTokenOf(headers), token);
  }
});

test('the current token is sent unless another is given', async () => {
  await withFencingToken(text, async () => {
    await Promise.resolve();
    assert.deepEqual(currentFencingToken(), token);
    assert.deepEqual(fencingHeaders(), { 'fencing-token': text });
  });
  assert.throws(() => fencingHeaders(), MissingTokenError);
});

test('without a token, the error says what to do inside withPermit and inside withPermits', () => {
  assert.throws(
    () => currentFencingToken(),
    /inside withPermit .*SemaphorePlugin.*withPermits .*String\(permit\.token\)/,
  );
});

test('a request without a token is refused, and so is one with two', () => {
  for (const headers of [{}, new Headers(), { 'fencing-token': undefined }]) {
    assert.throws(() => fencingTokenOf(headers), MissingTokenError);
  }
  const twice = new Headers(fencingHeaders(token));
  twice.append('fencing-token', text);
  for (const headers of [twice, { 'fencing-token': [text, text] }, { 'fencing-token': '' }]) {
    assert.throws(() => fencingTokenOf(headers), MalformedTokenError);
  }
});

test('the entry loads neither the Temporal SDK nor a driver, so any service can use it', () => {
  // Other tests share this process, and may have loaded any of it.
  const shared = { ...require.cache };
  const forget = () => {
    for (const path of Object.keys(require.cache)) delete require.cache[path];
  };
  forget();
  require('../fencing');
  const loaded = Object.keys(require.cache);
  forget();
  Object.assign(require.cache, shared);
  assert.ok(loaded.some((path) => path.includes('postgres-fence')));
  assert.deepEqual(
    loaded.filter((path) => path.includes('node_modules')),
    [],
  );
});
