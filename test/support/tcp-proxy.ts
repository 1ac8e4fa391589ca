import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and the server, and can be cut: `reset` breaks connections, `silent` just moves nothing. */
export class TcpProxy {
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  private state: 'open' | 'reset' | 'silent' = 'open';

  private constructor(private readonly target: { host: string; port: number }) {
    this.server = createServer((client) => this.join(client));
  }

  static async to(address: string): Promise<TcpProxy> {
    const [host = '', port] = address.split(':');
    const proxy = new TcpProxy({ host, port: Number(port) });
    proxy.server.listen(0, '127.0.0.1');
    await once(proxy.server, 'listening');
    return proxy;
  }

  get address(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  cut(how: 'reset' | 'silent'): void {
    this.state = how;
    for (const socket of this.sockets) {
      if (how === 'reset') socket.destroy();
      else socket.pause();
    }
  }

  mend(): void {
    this.state = 'open';
    for (const socket of this.sockets) socket.resume();
  }

  async close(): Promise<void> {
    this.cut('reset');
    this.server.close();
    await once(this.server, 'close');
  }

  private join(client: Socket): void {
    if (this.state === 'reset') {
      client.destroy();
      return;
    }
    const upstream = connect(this.target);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.sockets.add(from);
      from.on('data', (data) => to.write(data));
      from.on('error', () => from.destroy());
      from.on('close', () => {
        this.sockets.delete(from);
        to.destroy();
      });
      if (this.state === 'silent') from.pause();
    }
  }
}
