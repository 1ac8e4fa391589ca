import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { HOST } from './ports';

export interface Balancer {
  readonly address: string;
  close(): Promise<void>;
}

/** Listens on a port. Each connection goes to the next of the backends' ports that accepts one. */
export async function startBalancer(port: number, backends: readonly number[]): Promise<Balancer> {
  let turn = 0;
  const open = new Set<Socket>();
  const server = createServer({ noDelay: true }, (down) => {
    open.add(down);
    down.on('error', () => undefined);
    down.once('close', () => open.delete(down));
    const first = turn++;
    const order = backends.map((_, index) => backends[(first + index) % backends.length]);
    const attempt = () => {
      const backend = order.shift();
      if (backend === undefined || down.destroyed) down.destroy();
      else join(down, backend, attempt);
    };
    attempt();
  });
  server.listen(port, HOST);
  await once(server, 'listening');
  return {
    address: `${HOST}:${port}`,
    async close() {
      server.close();
      for (const socket of open) socket.destroy();
      await once(server, 'close');
    },
  };
}

function join(down: Socket, port: number, refused: () => void): void {
  const up = connect({ port, host: HOST, noDelay: true });
  up.once('error', refused);
  up.once('connect', () => {
    up.off('error', refused);
    up.on('error', () => undefined);
    up.once('close', () => down.destroy());
    down.once('close', () => up.destroy());
    up.pipe(down);
    down.pipe(up);
  });
}
