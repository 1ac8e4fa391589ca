import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { Inspection, InspectOptions } from '../operator';
import { Hub } from './hub';
import type { ResourceOperator } from './poller';

/** A resource of one slot, and what is asked of it. */
class OneSlot implements ResourceOperator {
  looks = 0;
  isHeld = true;
  queue: Inspection['queue'] = 'none';
  /** The queries that each look asks to make of permits, and those that were made. */
  permits = 1;
  /** How many looks asked for past holds. */
  pastQueries = 0;
  queries = 0;
  /** Looks wait for it. */
  gate: Promise<unknown> = Promise.resolve();
  revoke = async () => undefined;
  resize = async () => undefined;
  pause = async () => undefined;
  resume = async () => undefined;

  constructor(readonly resource: string) {}

  async inspect({ mayAskPermit = () => true, recent = 0 }: InspectOptions = {}): Promise<Inspection> {
    this.looks++;
    if (recent > 0) this.pastQueries++;
    for (let permit = 0; permit < this.permits; permit++) if (mayAskPermit()) this.queries++;
    await this.gate;
    const holder = { identity: 'a' };
    const permit = { workflowId: 'permit:x:0', runId: 'r', taskQueue: 'permits', holder, since: new Date(0) };
    const slot = this.isHeld ? { slot: '0', state: 'held' as const, permit } : { slot: '0', state: 'free' as const };
    const held = this.isHeld ? 1 : 0;
    return { resource: this.resource, capacity: 1, held, slots: [slot], waiters: [], queue: this.queue, recent: [] };
  }
}

/** Lets so much time pass, second by second. */
async function pass(seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    mock.timers.tick(1_000);
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  }
}

test('what nobody looked at for a while is shown as of then, until somebody has looked', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const gpu = new OneSlot('gpu');
  const hub = new Hub([gpu]);
  t.after(() => hub.close());
  const head = () => hub.views[0]?.head;
  const leave = hub.subscribe(() => undefined);
  await pass(3);
  assert.deepEqual([head()?.held, head()?.asOfMs], [1, undefined]);
  const lastLookMs = Date.now();
  leave();
  await pass(60);
  let open: () => void = () => undefined;
  gpu.gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  gpu.isHeld = false;
  hub.subscribe(() => undefined);
  const asOfMs = head()?.asOfMs ?? assert.fail('an old view is given for a new one');
  assert.ok(Math.abs(asOfMs - lastLookMs) <= 4_000, `${asOfMs - lastLookMs} ms`);
  await pass(2);
  assert.deepEqual([head()?.held, head()?.asOfMs], [1, asOfMs]);
  open();
  await pass(1);
  assert.deepEqual([head()?.held, head()?.asOfMs], [0, undefined]);
});

test('a look that takes long leaves the view behind the times; one that fails too, and says why', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const gpu = new OneSlot('gpu');
  const hub = new Hub([gpu]);
  t.after(() => hub.close());
  hub.subscribe(() => undefined);
  await pass(3);
  let fail: (error: Error) => void = () => undefined;
  gpu.gate = new Promise((_, reject) => {
    fail = reject;
  });
  await pass(8);
  assert.ok(hub.views[0]?.head.asOfMs);
  fail(new Error('no such server'));
  await pass(1);
  assert.ok(hub.views[0]?.head.asOfMs);
  assert.equal(hub.views[0]?.head.problem, 'no such server');
  gpu.gate = Promise.resolve();
  await pass(2);
  assert.deepEqual([hub.views[0]?.head.asOfMs, hub.views[0]?.head.problem], [undefined, undefined]);
});

test('what an open page costs is bounded: two queries a second of queues, and two of permits, however many there are', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const resources = Array.from({ length: 40 }, (_, index) => new OneSlot(`busy-${index}`));
  for (const one of resources) {
    one.queue = 'running';
    one.permits = 25;
  }
  const hub = new Hub(resources);
  t.after(() => hub.close());
  const leaves = [hub.subscribe(() => undefined), hub.subscribe(() => undefined)];
  await pass(3);
  const sum = (what: 'looks' | 'queries') => resources.reduce((total, one) => total + one[what], 0);
  assert.ok(sum('queries') <= 30 + 2 * 4, `${sum('queries')} queries of permits at once`);
  await pass(57);
  const [looks, queries] = [sum('looks'), sum('queries')];
  await pass(100);
  // A look asks the queue once at the most.
  assert.ok(sum('looks') - looks <= 220, `${sum('looks') - looks} looks at queues`);
  assert.ok(sum('queries') - queries <= 201, `${sum('queries') - queries} queries of permits`);
  assert.ok(sum('looks') - looks >= 150 && sum('queries') - queries >= 150, 'as many as it may');
  for (const leave of leaves) leave();
});

test('Temporal is silent when it has answered about no resource for a while, and not when one look fails', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const [gpu, disk] = [new OneSlot('gpu'), new OneSlot('disk')];
  const hub = new Hub([gpu, disk]);
  t.after(() => hub.close());
  hub.subscribe(() => undefined);
  await pass(3);
  const failing = () => {
    const gate = Promise.reject(new Error('no such server'));
    gate.catch(() => undefined);
    return gate;
  };
  gpu.gate = failing();
  await pass(30);
  assert.equal(hub.views[0]?.head.problem, 'no such server');
  assert.equal(hub.silence, undefined);
  const lastAnswerMs = Date.now();
  disk.gate = failing();
  await pass(30); // and the search, which makes no call where each resource has a name, does not count as an answer
  const { problem, sinceMs = 0 } = hub.silence ?? assert.fail('nobody says that Temporal is silent');
  assert.equal(problem, 'no such server');
  assert.ok(Math.abs(sinceMs - lastAnswerMs) <= 1_000, `${sinceMs - lastAnswerMs} ms`);
  disk.gate = Promise.resolve();
  await pass(2);
  assert.equal(hub.silence, undefined);
});

test('a first look that takes long is no answer', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const gpu = new OneSlot('gpu');
  let fail: (error: Error) => void = () => undefined;
  gpu.gate = new Promise((_, reject) => {
    fail = reject;
  });
  const hub = new Hub([gpu]);
  t.after(() => hub.close());
  hub.subscribe(() => undefined);
  await pass(5);
  fail(new Error('no such server'));
  await pass(1);
  assert.deepEqual(hub.silence, { problem: 'no such server', sinceMs: undefined });
});

test('a page that is loaded again while a search is under way begins one more search, and no second row of them', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  let searches = 0;
  const find = async () => {
    searches++;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    return [];
  };
  const hub = new Hub([], { find, forget: () => undefined });
  t.after(() => hub.close());
  let leave = hub.subscribe(() => undefined);
  for (let reload = 0; reload < 5; reload++) {
    leave();
    leave = hub.subscribe(() => undefined);
  }
  await pass(5);
  const before = searches;
  await pass(110); // one each 11 s
  assert.ok(searches - before <= 11, `${searches - before} searches`);
});

test('a key is looked at while a page shows it, from when a search has found it', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const acme = new OneSlot('openai~key:acme');
  let found: ResourceOperator | undefined;
  const forgotten: string[] = [];
  const key = (resource: string) => (resource === acme.resource ? found : undefined);
  const hub = new Hub([], { find: async () => [], forget: (resource) => forgotten.push(resource), key });
  t.after(() => hub.close());
  hub.subscribe(() => undefined);
  const [first, second, unknown] = [hub.show(acme.resource), hub.show(acme.resource), hub.show('openai~key:x')];
  await pass(5);
  assert.equal(acme.looks, 0);
  found = acme;
  await pass(20);
  assert.ok(acme.looks >= 5, `${acme.looks} looks`);
  first();
  unknown();
  await pass(5);
  assert.deepEqual(
    hub.views.map(({ resource }) => resource),
    [acme.resource],
  );
  second();
  const { looks } = acme;
  await pass(20);
  assert.deepEqual([acme.looks, forgotten, hub.views], [looks, [acme.resource], []]);
});

test('a page that opens on 200 resources asks for their past holds one after another', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const all = Array.from({ length: 200 }, (_, index) => new OneSlot(`resource-${index}`));
  const hub = new Hub([], { find: async () => all, forget: () => undefined });
  t.after(() => hub.close());
  hub.subscribe(() => undefined);
  const asked = () => all.reduce((sum, { pastQueries }) => sum + pastQueries, 0);
  await pass(6);
  assert.ok(asked() >= 5 && asked() <= 5 + 6, `${asked()} queries for past holds in 6 s`);
  await pass(400);
  assert.ok(asked() <= 5 + 406, `${asked()} queries in 406 s`);
  assert.deepEqual(
    all.filter(({ pastQueries }) => pastQueries === 0).map(({ resource }) => resource),
    [],
  );
});

test('found resources are looked at less while idle, and go when nobody has used them for five minutes; named ones stay', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 });
  t.after(() => mock.timers.reset());
  const named = new OneSlot('named');
  named.isHeld = false;
  const once = Array.from({ length: 200 }, (_, index) => new OneSlot(`once-${index}`));
  let inUse: ResourceOperator[] = once;
  let fails = false;
  const forgotten: string[] = [];
  const find = async () => (fails ? Promise.reject(new Error('not now')) : inUse);
  const hub = new Hub([named], { find, forget: (resource) => forgotten.push(resource) });
  t.after(() => hub.close());
  hub.subscribe(() => undefined);
  await pass(20);
  assert.equal(hub.views.length, 201);
  assert.deepEqual(forgotten, []);

  for (const one of once) one.isHeld = false;
  inUse = once.slice(0, 1);
  await pass(30);
  const before = once[5]?.looks ?? 0;
  await pass(100);
  assert.ok((once[5]?.looks ?? 0) - before <= 11, `${(once[5]?.looks ?? 0) - before} looks in 100 s at what is idle`);
  fails = true;
  await pass(400);
  assert.equal(hub.views.length, 201, 'a search that fails says nothing');
  fails = false;
  await pass(20);
  assert.deepEqual(
    hub.views.map(({ resource }) => resource),
    ['named', 'once-0'],
  );
  assert.equal(forgotten.length, 199);
  const ended = once[5]?.looks;
  await pass(60);
  assert.equal(once[5]?.looks, ended);
});
