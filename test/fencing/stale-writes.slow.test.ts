import { testStaleWrites } from '../support/stale-writes';

testStaleWrites(10, 20);
