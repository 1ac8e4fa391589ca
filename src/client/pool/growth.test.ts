import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Growth, type GrowthCommand, type Standing } from './growth';

const said = (commands: GrowthCommand[]) =>
  commands.map((command) => ('place' in command ? `${command.do}:${command.place.nth}` : command.do)).join(' ');

for (const [waiting, expected] of [
  [4, 'line-up:1'], // one place more
  [3, 'leave:4'], // one in exchange
] as const) {
  test(`a pool whose last permit is due lines up as one that has none, at least cost: ${waiting} callers`, () => {
    const growth = new Growth(10, 200);
    const rest = { priorityKey: 3, holding: 0, releasing: 0, owed: 0, asking: 0, isLooking: false };
    const next = (standing: Partial<Standing> & Pick<Standing, 'nowMs' | 'waiting'>) =>
      growth.next({ ...rest, ...standing });
    assert.equal(said(next({ nowMs: 0, waiting: 5 })), 'try');
    growth.tried(10);
    const places = next({ nowMs: 10, waiting: 5 });
    assert.equal(said(places), 'line-up:1 line-up:2 line-up:3 line-up:4');
    const [first] = places;
    growth.acquired(first?.do === 'line-up' ? first.place : assert.fail());
    growth.looked(true);
    assert.equal(said(next({ nowMs: 20, waiting, holding: 1 })), '');
    assert.equal(said(next({ nowMs: 2_000, waiting, holding: 1, owed: 1 })), expected);
    assert.equal(said(next({ nowMs: 2_010, waiting, holding: 1, owed: 1 })), '', 'once');
  });
}
