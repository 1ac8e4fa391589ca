import { once } from 'node:events';
import { type ClientHttp2Session, connect, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

/** gRPC's codes. */
export const PERMISSION_DENIED = 7;
export const RESOURCE_EXHAUSTED = 8;

/** Stands between a client and the server, and refuses one gRPC method with a status, as the server does. */
export class RefusingProxy {
  private readonly server: Http2Server;
  private readonly upstream: ClientHttp2Session;

  private constructor(
    address: string,
    private readonly method: string,
    status: number,
  ) {
    const refusal = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': String(status) };
    this.upstream = connect(`http://${address}`);
    this.server = createServer().on('stream', (stream, headers) => {
      stream.on('error', () => stream.destroy());
      if (headers[':path']?.endsWith(`/${this.method}`)) stream.respond(refusal, { endStream: true });
      else this.join(stream, headers);
    });
  }

  static async to(address: string, method: string, status: number): Promise<RefusingProxy> {
    const proxy = new RefusingProxy(address, method, status);
    proxy.server.listen(0, '127.0.0.1');
    await once(proxy.server, 'listening');
    return proxy;
  }

  get address(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.upstream.destroy();
    this.server.close();
  }

  private join(stream: ServerHttp2Stream, headers: Parameters<ClientHttp2Session['request']>[0]): void {
    const request = this.upstream.request(headers);
    request.on('error', () => stream.destroy());
    stream.on('close', () => request.close());
    let trailers = {};
    request.on('trailers', (received) => {
      trailers = received;
    });
    request.on('response', (response) => {
      if (stream.destroyed) return;
      stream.respond(response, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      request.pipe(stream);
    });
    stream.pipe(request);
  }
}
