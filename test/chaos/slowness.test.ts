import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { after, test } from 'node:test';
import { TcpProxy } from '../../scripts/support/tcp-proxy';

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

test('a slow connection carries all bytes later, in their order, and is fast again when it is mended', async () => {
  for (const slowness of [{ requestsMs: 150 }, { answersMs: 150 }, { bytesPerSecond: 20 }]) {
    const { proxy, socket, until } = await throughProxy();
    proxy.slowDown(slowness);
    socket.write('one');
    const tookMs = until('one two three');
    setTimeout(() => socket.write(' two'), 20);
    setTimeout(() => {
      proxy.mend();
      socket.write(' three');
    }, 40);
    assert.ok((await tookMs) >= 140, `${JSON.stringify(slowness)}: ${await tookMs} ms`);
    socket.destroy();
    await proxy.close();
  }
});
