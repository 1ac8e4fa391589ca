import { testRunIdOrder } from '../support/run-id-order';

testRunIdOrder({ consecutive: 5_000, contended: 1_000 });
