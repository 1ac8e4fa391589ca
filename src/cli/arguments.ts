import type { StringValue } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time';
import { InvalidArgumentError, Option } from 'commander';

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.');
  return Number(text);
}

/** An option that gives milliseconds. */
export function durationOption(flags: string, description: string, byDefault: StringValue, leastMs = 0): Option {
  return new Option(flags, description).default(msToNumber(byDefault), byDefault).argParser((text) => {
    let ms = Number.NaN;
    try {
      ms = msToNumber(text as StringValue);
    } catch {
      // Refused below.
    }
    if (!(ms >= leastMs)) throw new InvalidArgumentError(`Expected a duration of ${leastMs} ms or more, such as 2s.`);
    return ms;
  });
}
