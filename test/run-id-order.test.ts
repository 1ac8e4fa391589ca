import { testRunIdOrder } from './support/run-id-order';

testRunIdOrder({ consecutive: 500, contended: 200 });
