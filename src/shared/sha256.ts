/** The round constants: the first 32 bits of the fractions of the cube roots of the first 64 primes. */
const ROUNDS = fractions(64, Math.cbrt);
/** The initial state: likewise, from the square roots of the first 8 primes. */
const START = fractions(8, Math.sqrt);

/** SHA-256 (FIPS 180-4) in hexadecimal, for short texts such as names. The Workflow sandbox has no crypto module. */
export function sha256(bytes: Uint8Array): string {
  const state = [...START];
  const blocks = padded(bytes);
  for (let at = 0; at < blocks.byteLength; at += 64) compress(state, new DataView(blocks.buffer, at, 64));
  return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function padded(bytes: Uint8Array): Uint8Array {
  const blocks = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  blocks.set(bytes);
  blocks[bytes.length] = 0x80;
  new DataView(blocks.buffer).setUint32(blocks.length - 4, bytes.length * 8); // names are far below 2^32 bits
  return blocks;
}

function compress(state: number[], block: DataView): void {
  const words: number[] = [];
  const word = (index: number) => words[index] as number;
  for (let n = 0; n < 64; n++) {
    if (n < 16) words.push(block.getInt32(n * 4));
    else {
      const [a, b] = [word(n - 15), word(n - 2)];
      const [low, high] = [turn(a, 7) ^ turn(a, 18) ^ (a >>> 3), turn(b, 17) ^ turn(b, 19) ^ (b >>> 10)];
      words.push((word(n - 16) + low + word(n - 7) + high) | 0);
    }
  }
  let [a, b, c, d, e, f, g, h] = state as [number, number, number, number, number, number, number, number];
  for (let n = 0; n < 64; n++) {
    const choice = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
    const one = (h + choice + (ROUNDS[n] as number) + word(n)) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, h] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
  }
  for (const [n, sum] of [a, b, c, d, e, f, g, h].entries()) state[n] = ((state[n] as number) + sum) | 0;
}

function turn(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

function fractions(count: number, root: (prime: number) => number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes.map((prime) => ((root(prime) % 1) * 2 ** 32) | 0);
}
