/**
 * The server rolled the transaction back although its function returned. A statement in it had failed, and the function
 * caught that error. Nothing was written.
 */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(options?: ErrorOptions) {
    super(
      'Nothing was committed. A statement in the transaction failed, and the function caught the error. Postgres then ' +
        'rolls back the whole transaction. Let the error propagate, or use a savepoint.',
      options,
    );
  }
}

/**
 * Two transactions met on one connection, where the end of either ends both. The message says which case it is. Either the
 * connection was in a transaction already: the function has not run, and that transaction is unchanged. Or the function
 * ended the fenced transaction: its later writes were not fenced.
 */
export class MixedTransactionsError extends Error {
  override readonly name = 'MixedTransactionsError';

  constructor(when: 'before' | 'after') {
    super(
      when === 'before'
        ? 'The connection is in a transaction already. Use one connection for each fenced transaction at a time (a ' +
            'pool does it), or admit the token inside the open one: fence.within(client).admit(token).'
        : 'The function ended the fenced transaction itself (COMMIT, ROLLBACK, or an ORM that opened its own on this ' +
            'connection). Its later writes were not fenced. Leave BEGIN and COMMIT to the fence, or open the ' +
            'transaction yourself and use fence.within(client).admit(token).',
    );
  }
}

/** The function of a fenced transaction has ended and the slot is unlocked, so its `client` takes no more queries. */
export class TransactionOverError extends Error {
  override readonly name = 'TransactionOverError';

  constructor() {
    super(
      'The fenced transaction is over, so this query would not be fenced. The function must await all its queries, even ' +
        'if it stops early because of a time-out.',
    );
  }
}
