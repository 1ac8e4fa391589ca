export const PRINTABLE_ASCII = /^[ -~]*$/;

/** The number of bytes in UTF-8. */
export function byteLength(text: string): number {
  // A ticket may have a thousand names, and an encoder for each would take milliseconds.
  return PRINTABLE_ASCII.test(text) ? text.length : new TextEncoder().encode(text).length;
}

/** Compares two texts by their bytes in UTF-8, as every language can. */
export function byteOrder(a: string, b: string): number {
  const [one, other] = [new TextEncoder().encode(a), new TextEncoder().encode(b)];
  for (const [at, byte] of one.entries()) {
    const difference = byte - (other[at] ?? -1);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}
