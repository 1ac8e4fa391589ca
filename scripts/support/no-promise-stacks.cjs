// Preloaded into every process of `pnpm test`. For the query `__stack_trace` the SDK's workers note a stack trace for each
// Promise that a Workflow makes, and look up every line of it in the bundle's source map. No test asks that query.
const { promiseHooks } = require('node:v8');

const { createHook } = promiseHooks;
// Node itself hooks Promises through here for AsyncLocalStorage, and needs to know when each runs.
promiseHooks.createHook = (hooks) => (hooks.before ? createHook(hooks) : () => undefined);
