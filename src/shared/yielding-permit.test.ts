import assert from 'node:assert/strict';
import { test } from 'node:test';
import { YieldingPermit } from './yielding-permit';

class Lamp extends YieldingPermit<Lamp> {
  isHeld = true;
  isWanted = false;
  late: Error | undefined;

  constructor() {
    super(async () => new Lamp());
  }

  protected override async giveUp(): Promise<void> {
    this.isHeld = false;
  }

  override async lateLoss(): Promise<Error | undefined> {
    return this.late;
  }

  protected override throwLost(): never {
    throw new Error('lost');
  }

  protected override throwNoPlace(): never {
    throw new Error('no place');
  }
}

test('one that had ended before it is given up for a while is lost: nothing is done meanwhile, and nobody lines up', async () => {
  const permit = new Lamp();
  permit.late = new Error('was revoked');
  let worked = false;
  const work = async () => {
    worked = true;
  };
  await assert.rejects(permit.yieldDuring(work), /was revoked/);
  assert.deepEqual([worked, permit.latest], [false, permit]);
});

test('a permit that was lost or given back passes no checkpoint, whether anybody asks for it or not', async () => {
  const permit = new Lamp();
  assert.equal(await permit.checkpoint(), permit);
  permit.isHeld = false;
  await assert.rejects(permit.checkpoint(), /lost/);
  permit.isWanted = true;
  await assert.rejects(permit.checkpoint(), /lost/);
});

test('a holder that yields 20,000 times can be asked for its permit, and releases it, by its first one', async () => {
  const first = new Lamp();
  let permit = first;
  for (let yields = 0; yields < 20_000; yields++) permit = await permit.yieldDuring(async () => undefined);
  assert.equal(first.latest, permit);
  assert.ok(permit.isHeld && !first.isHeld && !permit.isAway && !first.isAway);
  await first.release();
  assert.ok(!permit.isHeld);
});

test('a release while its holder is away ends the permit that it comes back with', async () => {
  const first = new Lamp();
  const back = first.yieldDuring(async () => {
    assert.ok(first.isAway);
    await first.release();
  });
  assert.ok(!(await back).isHeld);
});
