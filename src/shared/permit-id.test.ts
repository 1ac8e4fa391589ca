import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { InvalidOptionsError } from './check';
import { checkResource, checkSlot, parsePermitId, permitId, queueId, waiterId } from './permit-id';

/** One character in four is the separator, which chance alone would hardly ever draw. */
const character = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }) },
  { weight: 1, arbitrary: fc.constant(':') },
);
const printable = fc.string({ unit: character, minLength: 1, maxLength: 24 });
const slotName = printable.map((name) => name.replaceAll(':', '_'));

test('a permit ID reads back as what it was made of, whatever the names', () => {
  fc.assert(
    fc.property(printable, slotName, (resource, slot) => {
      assert.deepEqual(parsePermitId(permitId({ resource, slot })), { resource, slot });
    }),
  );
});

test('two addresses never share an ID', () => {
  fc.assert(
    fc.property(printable, slotName, printable, slotName, (resource, slot, otherResource, otherSlot) => {
      fc.pre(resource !== otherResource || slot !== otherSlot);
      assert.notEqual(permitId({ resource, slot }), permitId({ resource: otherResource, slot: otherSlot }));
    }),
  );
});

test('what passes the checks fits the server: at most 255 bytes for every kind of ID', () => {
  const uuid = '0'.repeat(36);
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 260 }),
      fc.string({ unit: 'grapheme', maxLength: 260 }),
      (r, s) => {
        if (refusal(() => checkResource(r)) || refusal(() => checkSlot(r, s))) return;
        for (const id of [permitId({ resource: r, slot: s }), queueId(r), waiterId(r, uuid)]) {
          assert.ok(new TextEncoder().encode(id).length <= 255);
        }
        assert.deepEqual(parsePermitId(permitId({ resource: r, slot: s })), { resource: r, slot: s });
      },
    ),
  );
});

test('of names that look the same, by Unicode and at their ends, one at most is a name', () => {
  const mark = fc.constantFrom('', '', '', '', ' ', '\t', '\u00a0', '\u2003', '\u3000');
  const part = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 8 }), fc.constantFrom('é', 'ﬁ', 'Å', '한', 'ḍ̇'));
  const forms = fc.constantFrom('NFC', 'NFD', 'NFKC', 'NFKD');
  let accepted = 0;
  fc.assert(
    fc.property(mark, part, mark, forms, (before, middle, after, form) => {
      const name = before + middle.normalize(form) + after;
      for (const check of [checkResource, (slot: unknown) => checkSlot('pool', slot)]) {
        if (refusal(() => check(name))) continue;
        accepted++;
        assert.equal(name, name.normalize('NFC').trim());
      }
    }),
    { numRuns: 1_000 },
  );
  assert.ok(accepted > 50, `${accepted} accepted`);
});

test('IDs of other kinds are not permits', () => {
  for (const id of [
    '',
    'permit',
    'permit:',
    'permit:a',
    'permit:a:',
    'permit::0',
    queueId('a:b'),
    waiterId('a', 'b'),
  ]) {
    assert.equal(parsePermitId(id), undefined, id);
  }
});

test('names that the protocol cannot carry are refused, with what was expected and what was given', () => {
  const refused: [() => void, RegExp][] = [
    [() => checkResource(''), /resource: expected a non-empty string, got ""/],
    [() => checkResource(undefined), /resource: expected a non-empty string, got undefined/],
    [() => checkResource('a\nb'), /resource: expected printable characters only, got "a\\nb"/],
    [() => checkResource('\ud800'), /printable/],
    [() => checkResource('gpu '), /resource: expected a name without white space at either end, got "gpu "/],
    [() => checkResource('\u3000gpu'), /white space/],
    [() => checkSlot('pool', ' 0'), /slot name: expected a name without white space at either end, got " 0"/],
    [() => checkResource('cafe\u0301'), /expected a name in Unicode's form NFC, "café", got "cafe\\\\u0301"/],
    [() => checkSlot('pool', 'cafe\u0301'), /slot name: .*NFC/],
    [() => checkResource('é'.repeat(103)), /resource: expected at most 204 bytes/],
    [() => checkSlot('pool', 'a:b'), /slot name: expected a name without ":", got "a:b"/],
    [() => checkSlot('pool', ''), /slot name: expected a non-empty string/],
    [() => checkSlot('pool', 7), /slot name: expected a non-empty string, got 7/],
    [() => checkSlot('p'.repeat(204), 's'.repeat(44)), /slot name: expected a Workflow ID .* at most 255 bytes/],
  ];
  for (const [check, message] of refused) assert.match(refusal(check) ?? 'accepted', message);
  assert.equal(
    refusal(() => checkResource('é'.repeat(102))),
    undefined,
  );
  assert.equal(
    refusal(() => checkResource('team:gpu pool/α')),
    undefined,
  );
  assert.equal(
    refusal(() => checkSlot('p'.repeat(204), 's'.repeat(43))),
    undefined,
  );
});

function refusal(check: () => void): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    assert.ok(error instanceof InvalidOptionsError);
    return error.message;
  }
}
