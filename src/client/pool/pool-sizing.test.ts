import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Place, PoolSizing, type PoolStatus, type SizingCommand } from './pool-sizing';

const REST = { priorityKey: 3, holding: 0, releasing: 0, owed: 0, undecided: 0, isLooking: false };

const said = (commands: SizingCommand[]) =>
  commands.map((command) => ('place' in command ? `${command.do}:${command.place.nth}` : command.do)).join(' ');

const placeOf = (command: SizingCommand | undefined) =>
  command?.do === 'line-up' ? command.place : assert.fail(command?.do);

for (const [waiting, expected] of [
  [4, 'line-up:1'], // one place more
  [3, 'leave:4'], // one in exchange
] as const) {
  test(`a pool whose last permit is due lines up as one that has none, at least cost: ${waiting} callers`, () => {
    const sizing = new PoolSizing(10, 200);
    const next = (status: Partial<PoolStatus> & Pick<PoolStatus, 'nowMs' | 'waiting'>) =>
      sizing.next({ ...REST, ...status });
    assert.equal(said(next({ nowMs: 0, waiting: 5 })), 'try');
    sizing.tried(10);
    const places = next({ nowMs: 10, waiting: 5 });
    assert.equal(said(places), 'line-up:1 line-up:2 line-up:3 line-up:4');
    sizing.acquired(placeOf(places[0]));
    sizing.looked(true);
    assert.equal(said(next({ nowMs: 20, waiting, holding: 1 })), '');
    assert.equal(said(next({ nowMs: 2_000, waiting, holding: 1, owed: 1 })), expected);
    assert.equal(said(next({ nowMs: 2_010, waiting, holding: 1, owed: 1 })), '', 'once');
  });
}

/** What has happened to a pool with one caller that lacks a permit, and what it asks for then. */
const MODES: [what: string, happens: (sizing: PoolSizing, next: () => SizingCommand[]) => void, expected: string][] = [
  ['nothing', () => undefined, 'try'],
  ['a try was in vain', (sizing, next) => [next(), sizing.tried(0)], 'line-up:1'],
  ['a look: others wait', (sizing) => sizing.looked(true), 'line-up:1'],
  ['a look without an answer', (sizing) => sizing.looked(undefined), 'try'],
  ['others waited, and wait no longer', (sizing) => [sizing.looked(true), sizing.looked(false)], 'try'],
  ['others wait, and it stands in line', (sizing, next) => [sizing.looked(true), next(), sizing.looked(false)], ''],
  ['a place was served', (sizing, next) => [sizing.looked(true), sizing.acquired(placeOf(next()[0]))], 'look'],
  [
    'a place was served, and nobody waits',
    (sizing, next) => [sizing.looked(true), sizing.acquired(placeOf(next()[0])), sizing.looked(false)],
    'try',
  ],
  [
    'a place was served, and the queue is silent',
    (sizing, next) => [sizing.looked(true), sizing.acquired(placeOf(next()[0])), sizing.looked(undefined)],
    'line-up:1',
  ],
];
for (const [what, happens, expected] of MODES) {
  test(`what a pool asks for after: ${what}`, () => {
    const sizing = new PoolSizing(10, 200);
    const next = () => sizing.next({ ...REST, nowMs: 0, waiting: 1 });
    happens(sizing, next);
    assert.equal(said(next()), expected);
  });
}

test('the server refuses: a pool asks for nothing for a second, and says why once where nobody will be served', () => {
  const sizing = new PoolSizing(10, 200);
  const status = { ...REST, nowMs: 0, waiting: 1 };
  sizing.next(status);
  sizing.tried(0, 'no permission');
  assert.equal(sizing.takeRefusal({ ...status, holding: 1 }), undefined);
  assert.equal(said(sizing.next(status)), '');
  assert.equal(sizing.dueMs(), 1_000);
  assert.equal(sizing.takeRefusal(status)?.error, 'no permission');
  assert.equal(sizing.takeRefusal(status), undefined);
  assert.equal(said(sizing.next(status)), 'try');
});

test('whatever happens, it keeps its invariants', () => {
  const event = fc.oneof(
    fc.record({ do: fc.constant('next' as const), waiting: fc.nat(8), priorityKey: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ do: fc.constant('acquired' as const), nth: fc.nat(6) }),
    fc.record({ do: fc.constant('gone' as const) }),
    fc.record({ do: fc.constant('tried' as const), refused: fc.boolean() }),
    fc.record({ do: fc.constant('left' as const) }),
    fc.record({ do: fc.constant('looked' as const), isWanted: fc.constantFrom(true, false, undefined) }),
    fc.record({ do: fc.constant('later' as const), ms: fc.nat(1_500) }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6 }), fc.array(event, { maxLength: 80 }), (max, events) => {
      const sizing = new PoolSizing(max, 200);
      let [nowMs, holding, triesLeft, isTrying] = [0, 0, 0, false];
      const places = new Set<Place>();
      for (const event of events) {
        if (event.do === 'later') nowMs += event.ms;
        else if (event.do === 'gone') holding = Math.max(0, holding - 1);
        else if (event.do === 'looked') sizing.looked(event.isWanted);
        else if (event.do === 'tried' && isTrying) {
          sizing.tried(nowMs, event.refused ? 'refused' : undefined);
          [triesLeft, isTrying] = [0, false];
        } else if (event.do === 'left') {
          for (const place of places) if (place.isLeaving) [sizing.left(place, nowMs), places.delete(place)];
        } else if (event.do === 'acquired') {
          const place = [...places][event.nth];
          if (place) places.delete(place);
          else if (triesLeft > 0) triesLeft--;
          else continue;
          sizing.acquired(place);
          holding++;
        } else if (event.do === 'next') {
          const { waiting, priorityKey } = event;
          const isUrgent =
            places.size > 0 && [...places].every((place) => place.priorityKey > priorityKey && !place.isLeaving);
          const commands = sizing.next({ ...REST, nowMs, waiting, priorityKey, holding });
          for (const command of commands) {
            if (command.do === 'try') {
              assert.equal(isTrying, false, 'G2');
              [triesLeft, isTrying] = [command.count, true];
            } else if (command.do === 'line-up') places.add(command.place);
          }
          const newPlaces = commands.filter((command) => command.do === 'line-up').length;
          const ofUrgent = isUrgent ? 1 : 0; // this place is taken however many there are
          if (newPlaces > ofUrgent) assert.ok(places.size <= (holding > 0 ? 1 : 4) + ofUrgent, 'G3');
        }
        assert.ok(holding + triesLeft + places.size <= max, 'G1');
        assert.equal(sizing.asked, triesLeft + places.size);
        const staying = [...places].filter(({ isLeaving }) => !isLeaving);
        assert.equal(new Set(staying.map(({ nth }) => nth)).size, staying.length, 'G4');
      }
    }),
    { numRuns: 10_000 },
  );
});
