// The model of the queue's state, which `test:unit` runs too, with ten times as many runs and another seed.
process.env.QUEUE_MODEL_RUNS ??= '10000';
process.env.QUEUE_MODEL_SEED ??= '2';
require('../../../src/workflows/queue/queue-state.model.test');
