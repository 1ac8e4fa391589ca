import { clockMs, type GuardOrder, LISTENS } from './guard';

// The guard of one command, in a separate process: see `Guard`.

/** The longest timer: Node's last 24 days at most, and a lease may be longer. */
const LOOK_AGAIN_MS = 60_000;

let order: GuardOrder | undefined;
let timer: NodeJS.Timeout | undefined;
let hasAsked = false;

process.on('message', (next: GuardOrder) => {
  order = next;
  hasAsked = false;
  look();
});

// The process that holds the permit is dead.
process.on('disconnect', () => {
  if (!order) return process.exit();
  const nowMs = clockMs();
  order = { ...order, termAtMs: nowMs, killAtMs: Math.min(order.killAtMs, nowMs + order.graceMs) };
  look();
});

function look(): void {
  clearTimeout(timer);
  if (!order) return;
  const { group, termAtMs = Number.POSITIVE_INFINITY, killAtMs } = order;
  const nowMs = clockMs();
  if (nowMs >= termAtMs && !hasAsked) {
    hasAsked = true;
    if (!signal(group, 'SIGTERM')) process.exit();
    signal(group, 'SIGCONT'); // a command that Ctrl-Z has stopped then receives TERM
  }
  if (nowMs >= killAtMs) {
    signal(group, 'SIGKILL');
    process.exit();
  }
  const nextMs = Math.min(killAtMs, hasAsked ? killAtMs : termAtMs);
  timer = setTimeout(look, Math.min(LOOK_AGAIN_MS, nextMs - nowMs));
}

/** `false` when the group is empty. */
function signal(group: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(-group, name);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

// A module that Node loads before this one (by `--import`, which a forked process inherits) may send a message when the channel has closed.
process.on('error', () => undefined);

process.send?.(LISTENS);
