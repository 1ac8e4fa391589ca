/** Enough calls at once to be quick, and too few for the server's rate limits. */
const MAX_AT_ONCE = 32;

/** Does `work` for each item, at most 32 at a time. The results are in the items' order. */
export async function mapConcurrently<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const left = items.entries();
  const worker = async () => {
    for (const [index, item] of left) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_AT_ONCE, items.length) }, worker));
  return results;
}
