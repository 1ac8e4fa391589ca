import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { FakePermit } from '../../test/support/fake-permit';
import { HeldHere } from './held-here';

class Refused extends Error {
  override readonly name = 'Refused';
}

const heldHere = new HeldHere<FakePermit>(new AsyncLocalStorage(), Refused);

function askForOneMore(capacity: number): void {
  const slots = Array.from({ length: capacity }, (_, slot) => String(slot));
  heldHere.checkSelfDeadlock([{ resource: 'gpus', slots } as never], { timeoutMs: Number.POSITIVE_INFINITY });
}

test('a chain of withPermits, each begun inside the one before, keeps in memory only those that are held', async () => {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const made: WeakRef<FakePermit>[] = [];
  const kept = await new Promise<number>((done) => {
    const next = async (before?: FakePermit) => {
      const permit = new FakePermit();
      made.push(new WeakRef(permit));
      await heldHere.run([permit], async () => {
        await before?.release();
        askForOneMore(2); // one is held
        setTimeout(() => {
          if (made.length < 100) return void next(permit);
          collect();
          done(made.filter((ref) => ref.deref()).length);
        });
      });
    };
    void next();
  });
  assert.ok(kept <= 5, `${kept} of 100 are kept`);
});

test('one that is given up for a while counts again when it is held again', async () => {
  const permit = new FakePermit();
  let work = () => {};
  await heldHere.run([permit], async () => {
    assert.equal(heldHere.find('gpus', undefined), permit);
    const yielded = permit.yield(async () => {
      await new Promise<void>((resolve) => {
        work = resolve;
      });
    });
    await delay(0); // given up
    assert.equal(heldHere.find('gpus', undefined), undefined);
    await heldHere.run([], async () => {
      askForOneMore(1);
      work();
      await yielded;
      assert.throws(() => askForOneMore(1), Refused);
    });
  });
});
