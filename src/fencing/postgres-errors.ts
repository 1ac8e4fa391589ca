/**
 * The server rolled the transaction back although its function returned: a statement in it had failed, and the failure
 * was swallowed. Nothing was written.
 */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(options?: ErrorOptions) {
    super(
      'Nothing was committed: a statement in the transaction had failed and its error was caught, but Postgres then ' +
        'refuses the whole transaction. Let the error pass, or use a savepoint.',
      options,
    );
  }
}

/**
 * Two transactions met on one connection, where the end of either is the end of both. Before the function: the connection
 * was in a transaction already, nothing has run, and that transaction is as it was. After it: the function ended the
 * fenced transaction, and what it wrote after that was not fenced.
 */
export class MixedTransactionsError extends Error {
  override readonly name = 'MixedTransactionsError';

  constructor(when: 'before' | 'after') {
    super(
      when === 'before'
        ? 'The connection is in a transaction already. Use one connection for each fenced transaction at a time (a ' +
            'pool does it), or admit the token inside the open one: fence.within(client).admit(token).'
        : 'The function has ended the fenced transaction itself (COMMIT, ROLLBACK, or an ORM that opened its own on ' +
            'this connection). What it wrote after that was not fenced. Leave BEGIN and COMMIT to the fence, or open ' +
            'the transaction yourself and use fence.within(client).admit(token).',
    );
  }
}

/** The function of a fenced transaction has ended, so the slot is unlocked; its `client` takes nothing more. */
export class TransactionOverError extends Error {
  override readonly name = 'TransactionOverError';

  constructor() {
    super(
      'The fenced transaction is over, so this query would not be fenced. Await every query inside the function, also ' +
        'when it gives up on a time-out.',
    );
  }
}
