import { testRunIdOrder } from '../support/run-id-order';

testRunIdOrder({ consecutive: 1_000, contended: 500 });
