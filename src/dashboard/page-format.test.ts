import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asOf, type Connection, duration, resizeText, shortNames, silenceOf, sourceText, ticking } from './page/format';
import { emptyView } from './view-diff';

test('durations are short, and say no more than one can read', () => {
  const cases = [-5, 0, 0.2, 840, 3_200, 59_999, 250_000, 7_500_000, 100_000 * 3_600];
  assert.deepEqual(cases.map(duration), [
    '0 s',
    '0 s',
    '1 ms',
    '840 ms',
    '3.2 s',
    '59 s',
    '4 m 10 s',
    '2 h 5 m',
    '4 d 4 h',
  ]);
  assert.equal(ticking(3_900), '3 s');
  assert.equal(ticking(120_000), '2 m');
});

test('what is set says who has set it, until when, and what comes back', () => {
  const untilMs = new Date().setHours(18, 0, 0, 0);
  const shown = (override: Partial<Parameters<typeof sourceText>[0]>) => {
    const all = { version: 1, paused: false, ...override };
    return [resizeText(all), sourceText(all)].join(' | ').replace(/\d+:\d+:\d+( PM)?/, 'T');
  };
  const before = { capacity: 5, fileVersion: 7 };
  assert.equal(shown({ capacity: 5 }), 'resized to 5 | set by hand');
  assert.equal(shown({ capacity: 5, fileVersion: 7 }), 'resized to 5 | limits file, version 7');
  assert.equal(
    shown({ capacity: 1, capacityUntilMs: untilMs, before }),
    'resized to 1 until T, then 5 (limits file, version 7) | set by hand',
  );
  assert.equal(shown({ capacityUntilMs: untilMs }), 'as declared until T, then as declared | set by hand');
  assert.equal(shown({ fileVersion: 8 }), 'as declared | limits file, version 8');
  assert.equal(shown({ paused: true }), ' | set by hand');
  assert.equal(shown({ paused: true, fileVersion: 7 }), ' | limits file, version 7');
  assert.equal(shown({ paused: true, pausedUntilMs: untilMs }), ' | ');
});

test('short names leave out what all share, but never everything', () => {
  const shorten = (...names: string[]) => names.map(shortNames(names));
  assert.deepEqual(shorten('consumer-a1-7', 'consumer-a1-12'), ['7', '12']);
  assert.deepEqual(shorten('train', 'train'), ['train', 'train']);
  assert.deepEqual(shorten('alpha', 'beta'), ['alpha', 'beta']);
  assert.deepEqual(shorten('job-', 'job-1'), ['job-', '1']);
  assert.deepEqual(shorten(), []);
});

test('a page is current while its server and Temporal answer; else it is as old as what was heard last', () => {
  const { resource, head, ...rest } = emptyView('gpu');
  const view = { resource, head: { ...head, ready: true }, ...rest };
  const when = (connection: Connection) => [silenceOf(connection)?.asOfMs, asOf(connection, view)];
  const silence = { problem: 'no', sinceMs: 5 };
  assert.deepEqual(when({ link: 'live', heardAtMs: 9 }), [undefined, undefined]);
  assert.deepEqual(when({ link: 'live', heardAtMs: 9, silence }), [5, 5]);
  assert.deepEqual(when({ link: 'lost', heardAtMs: 9 }), [9, 9]);
  assert.deepEqual(when({ link: 'lost', heardAtMs: 9, silence }), [5, 5]);
  assert.equal(asOf({ link: 'lost', heardAtMs: 9 }, { ...view, head: { ...view.head, asOfMs: 3 } }), 3);
  assert.equal(asOf({ link: 'lost', heardAtMs: 9 }, emptyView('gpu')), undefined);
});
