import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { runIds } from '../../test/support/tokens';
import { InvalidOptionsError } from './check';
import { FencingToken, MalformedTokenError, UnorderedRunIdError } from './fencing-token';
import { parsePermitId } from './permit-id';

const OLD = '01890a5d-ac96-774b-bcce-b302099a8057';
const NEW = '01890a5d-ac97-7000-8000-000000000000';

const name = (maxLength: number) =>
  fc
    .string({ unit: 'grapheme', minLength: 1, maxLength })
    .map((text) => text.normalize('NFC').trim())
    .filter((text) => text !== '' && !/[\p{C}\p{Zl}\p{Zp}]/u.test(text));
const activities = fc.record({ scheduledMs: fc.nat(9), attempt: fc.integer({ min: 1, max: 9 }) });
const tokens = fc
  .record({ resource: name(20), slot: name(6), runId: fc.uuid({ version: [4, 7] }) })
  .filter(({ slot }) => !slot.includes(':'))
  .filter(({ resource, slot }) => new TextEncoder().encode(resource + slot).length < 200)
  .chain((parts) => fc.option(activities, { nil: undefined }).map((activity) => ({ parts, activity })))
  .map(({ parts, activity }) => (activity ? FencingToken.from(parts).of(activity) : FencingToken.from(parts)));

test('a token survives its text, which any header can carry', () => {
  fc.assert(
    fc.property(tokens, (token) => {
      const text = token.toString();
      assert.match(text, /^[\x21-\x7e]{1,800}$/);
      assert.deepEqual(FencingToken.parse(text), token);
      assert.deepEqual(FencingToken.from(JSON.parse(JSON.stringify(token))), token);
      assert.deepEqual(parsePermitId(token.workflowId), { resource: token.resource, slot: token.slot });
    }),
    { numRuns: 2_000 },
  );
});

test('different tokens have different texts', () => {
  fc.assert(
    fc.property(tokens, tokens, (a, b) => {
      assert.equal(a.toString() === b.toString(), isDeepStrictEqual(a, b));
    }),
  );
});

test('whatever is parsed is either refused as malformed or the very text of a token', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        tokens.map(String),
        fc.string().map((text) => `${text}/0/${OLD}`),
      ),
      (text) => {
        try {
          assert.equal(FencingToken.parse(text).toString(), text);
        } catch (error) {
          assert.ok(error instanceof MalformedTokenError);
          assert.equal(error.given, text);
        }
      },
    ),
    { numRuns: 2_000 },
  );
});

for (const [what, text] of Object.entries({
  nothing: '',
  'too few parts': `gpu-pool/${OLD}`,
  'too many parts': `gpu/pool/0/${OLD}/1.1`,
  'an empty resource': `/0/${OLD}`,
  'an empty slot': `gpu-pool//${OLD}`,
  'a slot with a colon': `gpu-pool/a%3Ab/${OLD}`,
  'a run ID that is no UUID': 'gpu-pool/0/17',
  'a run ID in upper case': `gpu-pool/0/${OLD.toUpperCase()}`,
  'an activity without an attempt': `gpu-pool/0/${OLD}/1795263514881`,
  'an attempt of 0': `gpu-pool/0/${OLD}/1795263514881.0`,
  'an activity with a leading zero': `gpu-pool/0/${OLD}/0795263514881.1`,
  'an activity with a sign': `gpu-pool/0/${OLD}/-1.1`,
  'an empty activity': `gpu-pool/0/${OLD}/`,
  'a needless escape': `gpu%2Dpool/0/${OLD}`,
  'an escape in lower case': `gpu%c3%a4/0/${OLD}`,
  'a broken escape': `gpu%/0/${OLD}`,
  'bytes that are not UTF-8': `gpu%FF/0/${OLD}`,
  'an escaped line break': `gpu%0Apool/0/${OLD}`,
  'a list, as of a repeated header': `gpu-pool/0/${OLD}, gpu-pool/0/${OLD}`,
  'a name beyond the limit': `${'x'.repeat(250)}/0/${OLD}`,
  'a text beyond any limit': 'x'.repeat(1_000_000),
})) {
  test(`${what} is refused`, () => {
    assert.throws(() => FencingToken.parse(text), MalformedTokenError);
  });
}

test('the order is that of run IDs, within one slot', () => {
  fc.assert(
    fc.property(fc.uuid({ version: 7 }), fc.uuid({ version: 7 }), (a, b) => {
      const [one, other] = [a, b].map((runId) => FencingToken.from({ resource: 'r', slot: '0', runId }));
      assert.ok(one && other);
      const asNumbers = BigInt(`0x${a.replaceAll('-', '')}`) - BigInt(`0x${b.replaceAll('-', '')}`);
      assert.equal(Math.sign(one.compare(other)), asNumbers > 0n ? 1 : asNumbers < 0n ? -1 : 0);
    }),
  );
});

test("activities of one permit are ordered by scheduling, then by attempt; the permit's own token has no order with them", () => {
  const permit = FencingToken.from({ resource: 'r', slot: '0', runId: OLD });
  const ordered = [
    [5, 1],
    [5, 2],
    [17, 1],
  ].map(([scheduledMs = 0, attempt = 0]) => permit.of({ scheduledMs, attempt }));
  for (const [i, one] of ordered.entries()) {
    for (const [j, other] of ordered.entries()) assert.equal(Math.sign(one.compare(other)), Math.sign(i - j));
    assert.deepEqual([one.compare(permit), permit.compare(one)], [0, 0]);
    const next = FencingToken.from({ ...permit, runId: NEW });
    assert.ok(one.compare(next) < 0 && next.compare(one) > 0);
  }
  assert.equal(String(ordered[2]), `r/0/${OLD}/17.1`);
  assert.throws(() => permit.of({ scheduledMs: Number.NaN, attempt: 1 }), MalformedTokenError);
});

test('a run ID says when it was drawn, to the millisecond', () => {
  assert.equal(FencingToken.from({ resource: 'r', slot: '0', runId: NEW }).drawnAtMs, 0x01890a5dac97);
  const [last] = runIds(1, 2 ** 48 - 1);
  assert.equal(FencingToken.parse(`r/0/${last}`).drawnAtMs, 2 ** 48 - 1);
  assert.equal(FencingToken.parse('r/0/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d').drawnAtMs, undefined);
});

test('tokens of different slots, or of different resources, have no order', () => {
  const token = FencingToken.from({ resource: 'r', slot: '0', runId: NEW });
  for (const other of [{ slot: '1' }, { resource: 's' }]) {
    assert.throws(() => token.compare(FencingToken.from({ ...token, ...other })), InvalidOptionsError);
  }
});

test('a run ID of an old server has no order, and the error says which server is needed', () => {
  const v4 = FencingToken.from({ resource: 'r', slot: '0', runId: '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d' });
  const v7 = FencingToken.from({ resource: 'r', slot: '0', runId: NEW });
  assert.equal(v4.ordered, false);
  for (const compare of [() => v4.compare(v7), () => v7.compare(v4), () => v4.compare(v4)]) {
    assert.throws(
      compare,
      (error) => error instanceof UnorderedRunIdError && error.token === v4 && /1\.27 or later/.test(error.message),
    );
  }
});
