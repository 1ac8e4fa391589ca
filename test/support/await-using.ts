import { runInNewContext } from 'node:vm';
import { version } from '@temporalio/worker/package.json';

const [, minor = 0] = version.split('.').map(Number);
const isInSandbox = minor >= 21 || runInNewContext('typeof Symbol.asyncDispose') === 'symbol';

/** Why a Workflow here has no `await using`, for a test's `skip`. Outside Workflows, Node 20 has it. */
export const noAwaitUsing = !isInSandbox && '`await using` in a Workflow needs SDK 1.21, or Node 24';
