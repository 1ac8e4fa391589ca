import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/**
 * How a connection is cut: `reset` breaks it, `silent` moves nothing, and `deaf` passes requests on and throws the answers away.
 */
export type Cut = 'reset' | 'silent' | 'deaf';

/** How slowly the bytes of a connection move. */
export interface Slowness {
  /** How much later requests arrive, and answers. */
  requestsMs?: number;
  answersMs?: number;
  /** In each direction. */
  bytesPerSecond?: number;
}

/** Stands between a client and the server, can be cut, and can be slow. */
export class TcpProxy {
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  /** Connections that have lost a part of an answer, and so can't go on. */
  private readonly maimed = new Set<Socket>();
  private state: 'open' | Cut = 'open';
  private slowness: Slowness = {};

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

  cut(how: Cut): void {
    this.state = how;
    for (const socket of this.sockets) {
      if (how === 'reset') socket.destroy();
      else if (how === 'silent') socket.pause();
    }
  }

  slowDown(slowness: Slowness): void {
    this.slowness = slowness;
  }

  mend(): void {
    this.state = 'open';
    this.slowness = {};
    for (const socket of this.maimed) socket.destroy();
    this.maimed.clear();
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
      let dueMs = 0;
      const waiting: (() => void)[] = [];
      const inTurn = (pass: () => void, bytes = 0) => {
        const nowMs = performance.now();
        const { requestsMs = 0, answersMs = 0, bytesPerSecond = Number.POSITIVE_INFINITY } = this.slowness;
        // What came before goes before, also when it is no longer slow.
        dueMs = Math.max(dueMs, nowMs + (from === client ? requestsMs : answersMs)) + (bytes / bytesPerSecond) * 1_000;
        if (dueMs <= nowMs && waiting.length === 0) return pass();
        waiting.push(pass);
        setTimeout(() => waiting.shift()?.(), dueMs - nowMs); // whichever timer is first, the first goes
      };
      from.on('data', (data) => {
        if (from === upstream && this.state === 'deaf') this.maimed.add(from);
        else inTurn(() => void to.write(data), data.length);
      });
      from.on('error', () => from.destroy());
      from.on('close', () => {
        this.sockets.delete(from);
        this.maimed.delete(from);
        inTurn(() => to.destroy());
      });
      if (this.state === 'silent') from.pause();
    }
  }
}
