import type { Command } from 'commander';
import type { PoolOptions } from '../client/operators';
import { type Output, withOutputFlags, withSlotFlags } from './arguments';
import { type ConnectionFlags, withConnectionFlags } from './connection';

/** Which pool it is, as far as the flags say, and how to show it. */
export interface PoolFlags extends PoolOptions, ConnectionFlags {
  output: Output;
}

/** The flags of every command that looks at one pool, or acts on it. */
export function withPoolFlags(command: Command): Command {
  withSlotFlags(
    command,
    'how many permits the pool is deployed with (default: what its queue knows)',
    'its named slots instead, separated by commas',
  );
  command.option('--task-queue <name>', "the permit worker's task queue", 'permits');
  return withConnectionFlags(withOutputFlags(command));
}
