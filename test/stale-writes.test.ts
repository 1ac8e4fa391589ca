import { testStaleWrites } from './support/stale-writes';

testStaleWrites(15);
