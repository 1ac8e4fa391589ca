import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Message } from './observer';

/** An actor's connection to the observer. Each message is answered. */
export class ObserverLink {
  private readonly waiting = new Map<number, (answer: string) => void>();
  private sent = 0;

  private constructor(private readonly socket: Socket) {
    const lines = createInterface(socket);
    // Without its observer an actor is of no use.
    for (const end of ['error', 'close'] as const) lines.on(end, () => process.exit(1));
    lines.on('line', (line) => {
      const { n, answer } = JSON.parse(line) as { n: number; answer: string };
      this.waiting.get(n)?.(answer);
      this.waiting.delete(n);
    });
  }

  static async to(port: number): Promise<ObserverLink> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new ObserverLink(socket);
  }

  async tell(message: Message): Promise<string> {
    const n = ++this.sent;
    return await new Promise((resolve) => {
      this.waiting.set(n, resolve);
      this.socket.write(`${JSON.stringify({ ...message, n })}\n`);
    });
  }
}
