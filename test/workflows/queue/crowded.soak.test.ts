import { test } from 'node:test';
import { crowded } from '../../support/crowded';
import { useTemporal } from '../../support/temporal';

const temporal = useTemporal();

const THOUSAND = Array.from({ length: 1_000 }, (_, n) => String(n));

test('1,000 slots and 2,000 waiters: no task of the queue fails or times out, and all are served', async () => {
  await crowded(temporal, THOUSAND, { capacity: 1_000 }, 2_000);
});

test('tickets of 1,000 names each, as many as a queue takes', async () => {
  const slots = THOUSAND.map((slot) => `gpu-${slot}`);
  await crowded(temporal, slots, { slots }, 80);
});
