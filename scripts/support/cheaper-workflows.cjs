// Preloaded into every process of `pnpm test`, to spare work of the SDK's workers that no test looks at.
const { promiseHooks } = require('node:v8');
const { Script } = require('node:vm');

// For the query `__stack_trace`, they note a stack trace for each Promise that a Workflow makes, and look up every line of it in the
// bundle's source map. Node itself hooks Promises through here for AsyncLocalStorage, and needs to know when each runs.
const { createHook } = promiseHooks;
promiseHooks.createHook = (hooks) => (hooks.before ? createHook(hooks) : () => undefined);

// For each step of a Workflow, Node starts a thread that would end the step at its timeout, which is a day under TEMPORAL_DEBUG.
const { runInContext } = Script.prototype;
Script.prototype.runInContext = function (context, { timeout: _, ...options } = {}) {
  return runInContext.call(this, context, options);
};
