import type { Duration } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time';
import { InvalidArgumentError } from 'commander';

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.');
  return Number(text);
}

/** In milliseconds. */
export function parseDuration(leastMs: number): (text: string) => number {
  return (text) => {
    let ms = Number.NaN;
    try {
      ms = msToNumber(text as Duration);
    } catch {
      // Refused below.
    }
    if (!(ms >= leastMs)) throw new InvalidArgumentError(`Expected a duration of ${leastMs} ms or more, such as 2s.`);
    return ms;
  };
}
