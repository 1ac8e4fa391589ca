import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Duration } from '@temporalio/common';
import { msToNumber as sdksReader } from '@temporalio/common/lib/time';
import fc from 'fast-check';
import { durationText, msToNumber } from './duration';

const UNITS = [
  ...[
    '',
    'ms',
    'msec',
    'msecs',
    'millisecond',
    'milliseconds',
    's',
    'sec',
    'secs',
    'second',
    'seconds',
    'm',
    'min',
    'mins',
  ],
  ...[
    'minute',
    'minutes',
    'h',
    'hr',
    'hrs',
    'hour',
    'hours',
    'd',
    'day',
    'days',
    'w',
    'week',
    'weeks',
    'y',
    'yr',
    'yrs',
  ],
  ...['year', 'years', 'Seconds', 'MS', 'mo', 'month', 'constructor', 'ſ'],
];

const anyAmount = fc.oneof(
  fc.nat().map(String),
  fc.double({ min: -1e6, max: 1e6, noNaN: true }).map(String),
  fc.constantFrom('', '.5', '-.5', '1.', '-', '+1', '1,5', '--1', '0x10', '٣', '1'.repeat(99)),
);

const anyText = fc.oneof(
  fc
    .tuple(
      anyAmount,
      fc.constantFrom('', ' ', '  ', '\t', '\n'),
      fc.constantFrom(...UNITS),
      fc.constantFrom('', ' ', '\n'),
    )
    .map((parts) => parts.join('')),
  fc.string(),
);

test('a duration is read as the SDK reads it, and what the SDK refuses is refused', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      assert.equal(
        read(msToNumber, text),
        read(sdksReader, text),
        `src/shared/duration.ts reads ${JSON.stringify(text)} unlike the SDK`,
      );
    }),
    { numRuns: 2_000 },
  );
});

test('each unit has the length that the SDK gives it', () => {
  for (const unit of UNITS)
    assert.equal(
      read(msToNumber, `3 ${unit}`),
      read(sdksReader, `3 ${unit}`),
      `src/shared/duration.ts reads ${unit} unlike the SDK`,
    );
});

for (const value of [undefined, null, {}, ['5s'], true, 5n]) {
  test(`${typeof value} ${value} is no duration`, () => assert.equal(read(msToNumber, value), 'refused'));
}

function read(reader: (value: Duration) => number, value: unknown): number | 'refused' {
  try {
    return reader(value as Duration);
  } catch {
    return 'refused';
  }
}

test('a message shows a duration in units that people use', () => {
  const shown: [number, string][] = [
    [30, '30 ms'],
    [1_500, '1.5 s'],
    [30_000, '30 s'],
    [60_000, '1 min'],
    [90_000, '1 min 30 s'],
    [65_741_611, '18 h 15 min'],
    [5 * 86_400_000, '5 days'],
    [5 * 86_400_000 + 3_000, '5 days'],
    [706_903_812, '8 days 4 h'],
    [86_400_000, '1 day'],
  ];
  assert.deepEqual(
    shown.map(([ms]) => durationText(ms)),
    shown.map(([, text]) => text),
  );
});
