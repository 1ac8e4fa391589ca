import assert from 'node:assert/strict';

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** What a Prometheus server would read at that address. */
export async function scrape(address: string): Promise<Sample[]> {
  const answer = await fetch(`http://${address}/metrics`);
  assert.equal(answer.status, 200);
  const lines = (await answer.text()).split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('#')).map(parse);
}

/** `name{label="value",…} number` */
function parse(line: string): Sample {
  const [, name, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? assert.fail(line);
  const pairs = [...(labels ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)",?/g)];
  return {
    name: name ?? '',
    labels: Object.fromEntries(pairs.map(([, key, text]) => [key, text?.replaceAll(/\\(.)/g, '$1')])),
    value: Number(value),
  };
}
