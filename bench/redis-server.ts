import { spawn, spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { diesWithUs } from '../scripts/support/dies-with-us';
import { freePort } from '../scripts/support/server-process';

/** A Redis of our own, in memory; `undefined` where there is none on the machine. */
export async function startRedis(): Promise<{ port: number; stop: () => void } | undefined> {
  if (spawnSync('redis-server', ['--version']).status !== 0) return undefined;
  const port = await freePort();
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = diesWithUs(spawn('redis-server', options, { stdio: 'ignore' }));
  const probe = new Redis(port, '127.0.0.1', { retryStrategy: () => 50, maxRetriesPerRequest: null });
  probe.on('error', () => undefined); // until it listens
  await Promise.race([
    probe.ping(),
    delay(10_000, undefined, { ref: false }).then(() => Promise.reject(new Error('redis-server does not answer'))),
  ]);
  probe.disconnect();
  return { port, stop: () => void server.kill() };
}
