import { testStaleWrites } from './support/stale-writes';

testStaleWrites(6, 15);
