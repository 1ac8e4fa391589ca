/**
 * The server rolled the transaction back although its function returned: a statement in it had failed, and the failure
 * was swallowed. Nothing was written.
 */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor() {
    super(
      'Nothing was committed: a statement in the transaction had failed and its error was caught, but Postgres then ' +
        'refuses the whole transaction. Let the error pass, or use a savepoint.',
    );
  }
}
