import { testStaleWrites } from './support/stale-writes';

testStaleWrites(40);
