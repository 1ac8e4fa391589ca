import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { TcpProxy } from '../../../scripts/support/tcp-proxy';

const echo = createServer((socket) => socket.on('data', (data) => socket.write(data)));
after(() => void echo.close());

async function throughProxy() {
  if (!echo.listening) await once(echo.listen(0, '127.0.0.1'), 'listening');
  const proxy = await TcpProxy.to(`127.0.0.1:${(echo.address() as AddressInfo).port}`);
  const [host, port] = proxy.address.split(':');
  const socket = connect(Number(port), host);
  await once(socket, 'connect');
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    received += text;
  });
  const until = async (text: string) => {
    const startMs = performance.now();
    while (received !== text) await once(socket, 'data');
    return performance.now() - startMs;
  };
  return { proxy, socket, until };
}

/** Writes, and waits until the event loop has looked for what has come: the proxy has the text then. */
async function reaches(socket: Socket, text: string): Promise<void> {
  await new Promise((written) => socket.write(text, written));
  for (let turn = 0; turn < 2; turn++) await setImmediate();
}

test('a slow connection carries all bytes later, in their order, and is fast again when it is mended', async () => {
  for (const slowness of [{ requestsMs: 150 }, { answersMs: 150 }, { bytesPerSecond: 20 }]) {
    const { proxy, socket, until } = await throughProxy();
    proxy.slowDown(slowness);
    const tookMs = until('one two three');
    await reaches(socket, 'one');
    await delay(20);
    await reaches(socket, ' two');
    proxy.mend();
    socket.write(' three');
    assert.ok((await tookMs) >= 140, `${JSON.stringify(slowness)}: ${await tookMs} ms`);
    socket.destroy();
    await proxy.close();
  }
});
