import { testRunIdOrder } from './support/run-id-order';

testRunIdOrder({ consecutive: 200, contended: 100 });
