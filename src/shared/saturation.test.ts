import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidOptionsError } from './invalid-options';
import { orInline, type SaturationOptions, splitSaturation } from './saturation';

const split = (options?: SaturationOptions & { timeout?: number; maxWaiting?: number; attempts?: number }) =>
  splitSaturation(options);

test('who does not say what to do when saturated waits; who says it waits only where a limit is given', () => {
  assert.deepEqual(split(), { inline: false, acquire: {} });
  assert.deepEqual(split({ timeout: 5 }), { inline: false, acquire: { timeout: 5 } });
  assert.deepEqual(split({ onSaturated: 'wait' }), { inline: false, acquire: {} });
  assert.deepEqual(split({ onSaturated: 'reject' }), { inline: false, acquire: { timeout: 0 } });
  assert.deepEqual(split({ onSaturated: 'inline' }), { inline: true, acquire: { timeout: 0 } });
  assert.deepEqual(split({ onSaturated: 'inline', timeout: 5 }), { inline: true, acquire: { timeout: 5 } });
  assert.deepEqual(split({ onSaturated: 'inline', maxWaiting: 5 }), { inline: true, acquire: { maxWaiting: 5 } });
  assert.deepEqual(split({ onSaturated: 'reject', attempts: 2 }), { inline: false, acquire: { attempts: 2 } });
  for (const bad of ['no', 1, null]) {
    assert.throws(() => split({ onSaturated: bad as 'wait' }), /onSaturated: expected "wait", "reject" or "inline"/);
  }
  assert.throws(() => split(null as never), InvalidOptionsError);
});

const named = (name: string, cause?: Error) => Object.assign(new Error(name, cause && { cause }), { name });

/** What comes of it when there is no permit for this reason. */
const without = (error: Error) =>
  orInline<string, string>(
    async () => {
      throw error;
    },
    async (permit) => `ran under ${permit}`,
  );

test('without a permit to be had the function runs without one, and after any other failure not at all', async () => {
  assert.equal(await without(named('PermitTimeoutError')), 'ran under undefined');
  assert.equal(await without(named('LineFullError')), 'ran under undefined');
  for (const error of [
    named('PermitTimeoutError', new Error('unreachable')),
    named('ServiceError'),
    named('PermitLostError'),
  ]) {
    await assert.rejects(without(error), error);
  }
});

test('what the function itself throws is no reason to run it again', async () => {
  let ran = 0;
  const error = named('PermitTimeoutError');
  const run = orInline<string, never>(
    (fn) => fn('permit'),
    async () => {
      ran++;
      throw error;
    },
  );
  await assert.rejects(run, error);
  assert.equal(ran, 1);
});
