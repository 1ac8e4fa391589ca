import { DefaultFailureConverter } from '@temporalio/common';

/** Puts messages and stack traces of failures where the codec covers them. Loaded by path, by the worker and the Workflow bundler. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
