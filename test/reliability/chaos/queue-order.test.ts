import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CLOSING, DECLINED, ENQUEUE, INHERIT, MISSED, type Ticket, TURN } from '../../../src/shared/protocol';
import { MAX_WAITERS } from '../../../src/workflows/queue/line';
import { NOWHERE } from './actors/signal-faults';
import { checkTurns, type QueueEvent } from './checks/queue-order';

const RUN_ID = '01a20fff-0d03-798b-873f-7e0b76d60c6f';

/** A queue's history, written by hand. */
class Script {
  readonly events: QueueEvent[] = [];

  constructor(...input: unknown[]) {
    this.add({ workflowExecutionStartedEventAttributes: { input: payloads(...input) } });
  }

  signal(signalName: string, payload: unknown): this {
    return this.add({ workflowExecutionSignaledEventAttributes: { signalName, input: payloads(payload) } });
  }

  /** A task that saw all that came before the last `unseen` events, and gave these turns. */
  task(turns: Record<string, string>, unseen = 0, to?: string, runId: string | null = RUN_ID): this {
    const startedEventId = this.events.length + 1 - unseen;
    this.add({
      workflowTaskCompletedEventAttributes: {
        startedEventId,
      } as unknown as QueueEvent['workflowTaskCompletedEventAttributes'],
    });
    for (const [slot, ticketId] of Object.entries(turns)) {
      const input = payloads({ queueId: 'permit-queue:pool', ticketId, slot });
      const workflowExecution = { workflowId: to ?? ticketId, runId };
      this.add({
        signalExternalWorkflowExecutionInitiatedEventAttributes: { signalName: TURN, input, workflowExecution },
      });
    }
    return this;
  }

  /** The last task has also taken this ticket out of the line. */
  refusal(ticketId: string): this {
    const input = payloads({ queueId: 'permit-queue:pool', ticketId });
    return this.add({ signalExternalWorkflowExecutionInitiatedEventAttributes: { signalName: TURN, input } });
  }

  /** There is no permit in that slot. */
  noPermit(slot: string): this {
    const workflowExecution = { workflowId: `permit:pool:${slot}` };
    return this.add({ signalExternalWorkflowExecutionFailedEventAttributes: { workflowExecution } });
  }

  get disorder(): number {
    return checkTurns(this.events).disorder.length;
  }

  private add(event: Partial<QueueEvent>): this {
    this.events.push({ ...event, eventId: this.events.length + 1 } as unknown as QueueEvent);
    return this;
  }
}

/** The history of a run that continues another, of which it has this view. */
function continued(view: unknown): Script {
  const script = new Script({ tickets: [], view });
  const started = script.events[0]?.workflowExecutionStartedEventAttributes;
  if (started) started.continuedExecutionRunId = 'former';
  return script;
}

function payloads(...values: unknown[]) {
  return { payloads: values.map((value) => ({ data: Buffer.from(JSON.stringify(value)) })) };
}

function ticket(id: string, sinceMs: number, priorityKey?: number): Ticket {
  return { id, sinceMs, priorityKey, slots: 1, waiter: { workflowId: id, runId: RUN_ID } };
}

const [early, late, urgent] = [ticket('early', 1), ticket('late', 2), ticket('urgent', 3, 1)];
const line = () => new Script({ tickets: [] }).signal(ENQUEUE, late).signal(ENQUEUE, early).signal(ENQUEUE, urgent);

test('what a stranger sends that is none of the messages is left out', () => {
  const script = line();
  for (const signal of [ENQUEUE, MISSED, DECLINED, CLOSING, INHERIT])
    for (const value of [null, 5, 'x', [], {}, { ticket: 5, slot: {} }, { id: {} }]) script.signal(signal, value);
  assert.equal(script.task({ '0': 'urgent', '1': 'early', '2': 'late' }).disorder, 0);
});

test('priority, then arrival', () => {
  assert.equal(line().task({ '0': 'urgent', '1': 'early', '2': 'late' }).disorder, 0);
  assert.equal(checkTurns(line().task({ '0': 'urgent' }).events).turns, 1);
});

test('a turn before one who came earlier, or is more urgent', () => {
  assert.equal(line().task({ '0': 'urgent', '1': 'late' }).disorder, 1);
  assert.equal(line().task({ '0': 'early' }).disorder, 1);
});

test('who keeps a part comes first, then who has inherited a priority, then the permit pool that has less', () => {
  const [plain, pooled, kept] = [
    ticket('plain', 2),
    { ...ticket('pooled', 1), pool: { id: 'pool', nth: 2 } },
    { ...ticket('kept', 9, 5), permits: 2, kept: 1 },
  ];
  const script = (...tickets: Ticket[]) =>
    tickets.reduce((all, each) => all.signal(ENQUEUE, each), new Script({ tickets: [] }));
  assert.equal(script(plain, kept).task({ '0': 'kept', '1': 'plain' }).disorder, 0);
  assert.equal(script(plain, kept).task({ '0': 'plain' }).disorder, 1);
  assert.equal(script(plain, pooled).task({ '0': 'plain', '1': 'pooled' }).disorder, 0);
  assert.equal(script(plain, pooled).task({ '0': 'pooled' }).disorder, 1);
  const heir = { ...ticket('heir', 9, 5), inherits: ['other'] };
  assert.equal(script(plain, heir).task({ '0': 'heir' }).disorder, 1);
  const told = script(plain, heir).signal(INHERIT, { resource: 'other', priorityKey: 1 });
  assert.equal(told.task({ '0': 'heir' }).disorder, 0);
  const toldOfAnother = script(plain, heir).signal(INHERIT, { resource: 'third', priorityKey: 1 });
  assert.equal(toldOfAnother.task({ '0': 'heir' }).disorder, 1);
});

test('a ticket that the task had not seen is not overtaken', () => {
  assert.equal(line().task({ '0': 'early' }, 1).disorder, 0);
});

test('a turn that is told again to a waiter that is gone is none of the waiter that has the ticket now', () => {
  const next: Ticket = { ...early, waiter: { workflowId: 'next waiter', runId: 'run' } };
  const back = () =>
    line()
      .task({ '0': 'urgent', '1': 'early' })
      .signal(DECLINED, { ticketId: 'early' })
      .signal(ENQUEUE, next)
      .signal(ENQUEUE, {
        ...ticket('most-urgent', 4, 1),
      });
  assert.equal(back().task({ '1': 'early' }, 0, 'early').disorder, 0);
  assert.equal(back().task({ '1': 'early' }, 0, 'next waiter').disorder, 1);
});

test('a turn that is told again, without the run, is no other turn of the waiter that was beaten meanwhile', () => {
  const beaten = () =>
    line()
      .task({ '0': 'urgent', '1': 'early' })
      .signal(MISSED, { ticket: early, slot: '1' })
      .signal(ENQUEUE, ticket('most-urgent', 4, 1));
  assert.equal(beaten().task({ '1': 'early' }, 0, 'early', null).disorder, 0);
  assert.equal(beaten().task({ '1': 'early' }, 0, 'early').disorder, 1);
});

test('a turn that a fault has sent nowhere is a turn all the same', () => {
  const lost = line().task({ '0': 'urgent' }, 0, NOWHERE).task({ '1': 'early' });
  assert.equal(lost.disorder, 0);
});

test('who has left, was served, or has its turn is not overtaken', () => {
  const left = line().signal(DECLINED, { ticketId: 'urgent', runId: RUN_ID });
  assert.equal(left.task({ '0': 'early' }).disorder, 0);
  const another = line().signal(DECLINED, { ticketId: 'urgent', runId: 'another' });
  assert.equal(another.task({ '0': 'early' }).disorder, 1, 'the ticket is of another waiter by now');
  const again = line().task({ '0': 'urgent' }).signal(ENQUEUE, urgent).task({ '1': 'early' });
  assert.equal(again.disorder, 0, 'it has its turn, and asks for a sign of life');
});

test('who was refused, and so waits beside the line, is not overtaken until it comes again', () => {
  assert.equal(line().task({}).refusal('urgent').task({ '0': 'early' }).disorder, 0);
  assert.equal(line().task({ '0': 'early' }).refusal('urgent').disorder, 0);
  assert.equal(line().task({}).refusal('urgent').signal(ENQUEUE, urgent).task({ '0': 'early' }).disorder, 1);
});

test('who missed its slot is first again', () => {
  const missed = line().task({ '0': 'urgent' }).signal(MISSED, { ticket: urgent, slot: '0' });
  assert.equal(missed.task({ '1': 'early' }).disorder, 1);
});

test('who was served and comes anew stands in line anew', () => {
  const served = line().task({ '0': 'urgent' }).signal(CLOSING, { slot: '0', runId: 'permit' }).signal(ENQUEUE, urgent);
  assert.equal(served.task({ '0': 'early' }).disorder, 1);
});

test('a closing that is said twice tells nothing of the next permit', () => {
  const closing = { slot: '0', runId: 'permit' };
  const twice = line()
    .signal(CLOSING, closing)
    .task({ '0': 'urgent' })
    .signal(CLOSING, closing)
    .signal(ENQUEUE, urgent);
  assert.equal(twice.task({ '1': 'early' }).disorder, 0);
});

test('a run that continues another has its line', () => {
  const view = { tickets: [late, early], slots: [['0', { at: 'offered', ticketId: 'early', untilMs: 9 }]], shares: [] };
  assert.equal(continued(view).task({ '1': 'late' }).disorder, 0);
  const { slots: _, ...named } = early;
  const withLists = { lists: [['0', '1']], tickets: [late, { ...named, list: 0 }], slots: [], shares: [] };
  const message = 'names that stand in a list are those of a ticket';
  assert.equal(continued(withLists).task({ '1': 'late' }).disorder, 1, message);
  assert.equal(continued({ ...view, slots: [] }).task({ '1': 'late' }).disorder, 1);
});

test('a slot that is reserved for a ticket which has a turn is no turn', () => {
  const offered = { at: 'offered', ticketId: 't1', untilMs: 9 };
  const slots = [['0', { ...offered, reserved: true }] as const, ['1', offered] as const];
  const tickets = [1, 2, 3].map((n) => ({ ...ticket(`t${n}`, n), identity: n === 3 ? 'live' : 'dead' }));
  const run = (noPermit: string) => continued({ tickets, slots, shares: [] }).noPermit(noPermit).task({ '1': 't3' });
  assert.equal(run('1').disorder, 0, 'its turn has brought no permit');
  const told = continued({ tickets, slots, shares: [] }).noPermit('0').task({ '2': 't3' });
  assert.equal(told.disorder, 1, 'it had no turn for that slot');
});

/** A dead caller has had its turn. It has another ticket in line, before that of a caller which lives. */
const deadFirst = () =>
  [1, 2, 3]
    .map((n) => ({ ...ticket(`t${n}`, n), identity: n === 3 ? 'live' : 'dead' }))
    .reduce((all, each) => all.signal(ENQUEUE, each), new Script({ tickets: [] }))
    .task({ '0': 't1' });

test('who lets a turn pass comes last until it is heard of, and many have a turn for a slot then', () => {
  assert.equal(deadFirst().task({ '0': 't3' }).disorder, 0);
  assert.equal(deadFirst().task({ '1': 't3' }).disorder, 1, 'its turn is not over');
  assert.equal(deadFirst().signal(DECLINED, { ticketId: 't1' }).task({ '0': 't3' }).disorder, 1, 'it lives');
});

test('a caller whose turn has brought no permit comes last', () => {
  assert.equal(deadFirst().noPermit('0').task({ '1': 't3' }).disorder, 0);
  assert.equal(
    deadFirst().task({}).refusal('t1').noPermit('0').task({ '1': 't3' }).disorder,
    0,
    'told that its turn is over',
  );
  assert.equal(deadFirst().noPermit('1').task({ '1': 't3' }).disorder, 1, 'that slot was not its own');
});

test('a ticket that comes to a full line has no place in it', () => {
  const full = (more: number) => {
    const flood = Array.from({ length: MAX_WAITERS + more }, (_, n) => ticket(`flood${n}`, 9));
    return new Script({ tickets: flood }).signal(ENQUEUE, early).task({ '0': 'flood0' });
  };
  assert.equal(full(0).disorder, 0);
  assert.equal(full(-1).disorder, 1);
});

test('what a ticket has inherited in the run before may stay when it is sent again, or not: its turn may have been overdue', () => {
  const heir = { ...ticket('heir', 5, 1), inherits: ['other'] };
  const sentAgain = { ...heir, priorityKey: 2 };
  const former = () => new Script({ tickets: [ticket('urgent', 8, 1), ticket('later', 9, 2), heir] });
  assert.equal(former().task({ 0: 'urgent' }).disorder, 1, 'it has not left the line');
  const missed = { ticket: sentAgain, slot: '0' };
  for (const back of [
    () => former().signal(ENQUEUE, sentAgain),
    () => former().task({ 0: 'heir' }).signal(MISSED, missed),
  ]) {
    assert.equal(back().task({ 0: 'heir' }).disorder, 0, 'it stays');
    assert.equal(back().task({ 0: 'urgent' }).disorder, 0, 'or not');
    assert.equal(back().task({ 0: 'urgent', 1: 'later' }).disorder, 1, 'it has its own priority');
  }
  const toldNothing = new Script({ tickets: [ticket('urgent', 8, 1), sentAgain] });
  assert.equal(toldNothing.task({ 0: 'heir' }).disorder, 1);
});

test('who declines a turn in time is heard; where the turn was overdue, the queue does not know whose word that is', () => {
  const of = (id: string, sinceMs: number): Ticket => ({ ...ticket(id, sinceMs), identity: 'a client' });
  const script = () =>
    new Script({ tickets: [] })
      .signal(ENQUEUE, of('first', 1))
      .signal(ENQUEUE, of('second', 2))
      .signal(ENQUEUE, ticket('third', 3))
      .task({ '0': 'first' });
  const declined = { ticketId: 'first', runId: RUN_ID };
  assert.equal(script().signal(DECLINED, declined).task({ '0': 'second' }).disorder, 0);
  assert.equal(script().signal(DECLINED, declined).task({ '0': 'third' }).disorder, 1);
  assert.equal(script().noPermit('0').signal(DECLINED, declined).task({ '0': 'third' }).disorder, 0);
  assert.equal(script().signal(DECLINED, declined).noPermit('0').task({ '0': 'third' }).disorder, 0);
});

test('who missed a turn that was overdue still has the turn that came after it', () => {
  const script = () => line().task({ '0': 'urgent' }).signal(ENQUEUE, urgent).task({ '2': 'urgent' });
  const missed = (slot: string) => script().signal(MISSED, { ticket: urgent, slot }).task({ '1': 'early' }).disorder;
  assert.equal(missed('0'), 0);
  assert.equal(missed('2'), 1);
});

test('who has had a turn beside others, and comes again, has its next turn for another slot', () => {
  const of = (id: string, sinceMs: number): Ticket => ({ ...ticket(id, sinceMs), identity: 'a client' });
  const script = () =>
    new Script({ tickets: [of('first', 1), ticket('last', 4)] })
      .task({ '0': 'first' })
      .signal(ENQUEUE, of('first', 1))
      .task({ '1': 'first' })
      .signal(ENQUEUE, of('second', 3));
  assert.equal(script().task({ '1': 'last' }).disorder, 0, 'the client has let the second turn pass');
  assert.equal(script().task({ '2': 'last' }).disorder, 1);
});

test('who waits in an earlier run of a Workflow is not overtaken by its next run', () => {
  for (const [workflowId, disorder] of [
    ['early', 0],
    ['another', 1],
  ] as const) {
    const next = { ...ticket('next', 2), waiter: { workflowId, runId: 'reset' } };
    const script = new Script({ tickets: [early] }).signal(ENQUEUE, next);
    assert.equal(script.task({ '0': 'next' }, 0, workflowId).disorder, disorder, workflowId);
  }
});

test('who comes again while its turn is overdue has its next turn, though a permit closed in that slot', () => {
  const of = (id: string, sinceMs: number): Ticket => ({ ...ticket(id, sinceMs), identity: 'a client' });
  const script = () =>
    new Script({ tickets: [of('first', 1), ticket('last', 4)] })
      .task({ '0': 'first' })
      .signal(ENQUEUE, of('first', 1))
      .signal(CLOSING, { slot: '0', runId: RUN_ID })
      .task({ '0': 'first' })
      .signal(ENQUEUE, of('second', 3));
  assert.equal(script().noPermit('0').task({ '0': 'last' }).disorder, 0, 'the client has let its turns pass');
  assert.equal(script().task({ '1': 'last' }).disorder, 1);
});
