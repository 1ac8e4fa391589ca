import { test } from 'node:test';
import { crowded } from '../../support/crowded';
import { useTemporal } from '../../support/temporal';

const temporal = useTemporal();

// `test:soak crowded` does it with as many as the library allows.
test('200 slots and 400 waiters: no task of the queue fails or times out, and all are served', async () => {
  const slots = Array.from({ length: 200 }, (_, n) => String(n));
  await crowded(temporal, slots, { capacity: 200 }, 400);
});
