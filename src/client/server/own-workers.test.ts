import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownWorkerBegins, ownWorkerGone } from './own-workers';

test('many releases at once that wait for the end of the process’s own worker make Node warn of no leak', async () => {
  const warned: string[] = [];
  const hear = ({ name }: Error) => warned.push(name);
  process.on('warning', hear);
  const end = ownWorkerBegins('default', 'many');
  const over = Array.from({ length: 20 }, () => new AbortController());
  const gone = over.map(async ({ signal }) => {
    await ownWorkerGone('default', 'many', signal);
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(warned, []);
  end();
  for (const it of over) it.abort(); // they wait no longer for workers of other processes
  await Promise.all(gone);
  process.off('warning', hear);
});
