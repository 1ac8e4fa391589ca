import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { diesWithUs } from './dies-with-us';

export interface ServerOptions {
  /** @default a free one */
  port?: number;
  /** Starts the Web UI on this port. @default no Web UI */
  uiPort?: number;
  /** Keeps the server's state in this SQLite file. @default in memory */
  dbFilename?: string;
  /** Has the server tell its counters. */
  metrics?: boolean;
  /** More dynamic config, as `key=JSON`. */
  dynamicConfig?: readonly string[];
}

/** A Temporal server that this process started. */
export interface ServerProcess {
  readonly address: string;
  /** The address of its Web UI, if it has one. */
  readonly ui: string | undefined;
  /** The address at which the server tells its counters, for Prometheus. */
  readonly metrics: string | undefined;
  /** Resolves when the process has ended, for whatever reason, with the last of its standard error. */
  readonly ended: Promise<string>;
  /** Ends the server. SIGKILL ends it as a crash would. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** Stops or continues it. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
}

const HOST = '127.0.0.1';
const START_WITHIN_MS = 30_000;
/** A server that listens late still has this long to answer. */
const LEAST_ANSWER_MS = 10_000;
const UI_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 5_000;
/** How many ports are tried. */
const ATTEMPTS = 3;

/**
 * The dev server limits its one shard's queues to 20 polls a second, so each hop between Workflows waits up to 50 ms. A
 * production server has no such limit. These values lift it, turn off the check for newer versions, and turn on what a server that knows
 * Workflow Pause (1.30) leaves off.
 */
const DYNAMIC_CONFIG = [
  'history.transferProcessorMaxPollRPS=10000',
  'history.timerProcessorMaxPollRPS=10000',
  'frontend.enableServerVersionCheck=false',
  'frontend.WorkflowPauseEnabled=true',
];

/**
 * Starts the executable and waits until the server answers. The SDK's `createLocal` does that too, but its server writes
 * into our output, and nobody learns when it dies. A Ctrl-C also ends it before we have stopped our Workflows. Here the
 * server gets a process group of its own.
 */
export async function spawnServer(executable: string, options: ServerOptions = {}): Promise<ServerProcess> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await spawnOn(options.port ?? (await freePort()), executable, options);
    } catch (error) {
      // Somebody else may have taken the port that was free.
      if (options.port !== undefined || attempt === ATTEMPTS || !/address already in use|bind:/.test(String(error)))
        throw error;
    }
  }
}

async function spawnOn(port: number, executable: string, options: ServerOptions): Promise<ServerProcess> {
  const address = `${HOST}:${port}`;
  const metricsPort = options.metrics ? await freePort() : undefined;
  const child = spawn(
    executable,
    [
      ...['server', 'start-dev', '--ip', HOST, '--port', String(port), '--log-level', 'error'],
      ...(options.uiPort ? ['--ui-port', String(options.uiPort)] : ['--headless']),
      ...(metricsPort ? ['--metrics-port', String(metricsPort)] : []),
      ...(options.dbFilename ? ['--db-filename', options.dbFilename] : []),
      ...[...DYNAMIC_CONFIG, ...(options.dynamicConfig ?? [])].flatMap((value) => ['--dynamic-config-value', value]),
    ],
    { detached: true, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const ended = lastWords(child);
  diesWithUs(child);
  // A server with a file closes its database first, which takes a second.
  const stop: ServerProcess['stop'] = (signal = options.dbFilename ? 'SIGTERM' : 'SIGKILL') =>
    stopChild(child, ended, signal);
  try {
    await untilItAnswers(address, ended);
    const ui = options.uiPort ? await webUi(options.uiPort) : undefined;
    const metrics = metricsPort ? `${HOST}:${metricsPort}` : undefined;
    return { address, ui, metrics, ended, stop, signal: (name) => void child.kill(name) };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @throws Error when something listens on `port` already; the server's own message is long and suggests no way out */
export async function checkPortIsFree(port: number, whatFor: string): Promise<void> {
  await listenOnce(port).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
    throw new Error(
      `Port ${port} for ${whatFor}: expected a free port, but something listens there, perhaps another server. Choose another with --port.`,
    );
  });
}

/** Finds a port that is free now. The system does not hand it out again at once. */
export async function freePort(): Promise<number> {
  return await listenOnce(0);
}

async function listenOnce(port: number): Promise<number> {
  return await new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(port, HOST, () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : port));
    });
  });
}

/** A panic's stack is long, and why the server panicked stands before it. */
const MAX_WORDS = 20_000;

async function lastWords(child: ChildProcess): Promise<string> {
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    said = (said + chunk).slice(-MAX_WORDS);
  });
  return await new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(said.trim() || `exit ${code === null ? signal : `code ${code}`}`));
  });
}

async function untilItAnswers(address: string, ended: Promise<string>): Promise<void> {
  let words: string | undefined;
  void ended.then((said) => {
    words = said;
  });
  const deadline = Date.now() + START_WITHIN_MS;
  for (; ; await delay(25)) {
    // After a refused connection, a gRPC client waits a second before it tries again, so this checks the port first.
    const listening = await isListening(address);
    if (words !== undefined) throw new Error(`The Temporal server did not start: ${words}`);
    if (listening) break;
    if (Date.now() > deadline) throw new Error(`The Temporal server did not listen within ${START_WITHIN_MS} ms`);
  }
  // On a busy machine, it listens long before it answers.
  const connectTimeout = Math.max(LEAST_ANSWER_MS, deadline - Date.now());
  const answered = Connection.connect({ address, connectTimeout }).then((connection) => connection.close());
  const died = ended.then((said) => {
    throw new Error(`The Temporal server did not start: ${said}`);
  });
  await Promise.race([answered, died]);
}

async function isListening(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`);
  const socket = connect(Number(port), hostname);
  try {
    await once(socket, 'connect');
    // Where nobody listens, the system may give a connection its own port to come from: it is then connected with itself.
    return socket.localPort !== socket.remotePort;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Not every build of the executable has the UI's pages in it. */
async function webUi(port: number): Promise<string | undefined> {
  const url = `http://${HOST}:${port}`;
  for (const deadline = Date.now() + UI_WITHIN_MS; Date.now() < deadline; await delay(50)) {
    const answer = await fetch(url, { signal: AbortSignal.timeout(UI_WITHIN_MS) }).catch(() => undefined);
    if (answer) return answer.ok ? url : undefined;
  }
  return undefined;
}

async function stopChild(child: ChildProcess, ended: Promise<string>, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal);
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  await ended;
  clearTimeout(late);
}
