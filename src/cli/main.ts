#!/usr/bin/env node
import { signalCode } from './exit-codes';
import { execute } from './program';
import { endLine, say } from './terminal';

// Our warnings appear in our own form. Others keep the name that Node gives them.
process.removeAllListeners('warning');
process.on('warning', ({ name, message }) => say(name === 'Warning' ? message : `${name}: ${message}`));

// The reader of our output has gone, as `head` does. Exit as other programs do: with the signal's code.
process.stdout.on('error', () => process.exit(signalCode('SIGPIPE')));
// A message that can't be written is no reason to give up a permit.
process.stderr.on('error', () => undefined);

// Exit at once: the SDK may still hold a connection or wait for an answer that is not needed. But a pipe takes 64 KiB at a time, and
// an exit loses what the pipe has not taken yet.
void execute(process.argv).then(async (code) => {
  if (code === signalCode('SIGINT')) endLine();
  for (const stream of [process.stdout, process.stderr]) await new Promise((resolve) => stream.write('', resolve));
  process.exit(code);
});
