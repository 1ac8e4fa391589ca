import Table from 'cli-table3';

/** One line of the report. The ratio comes first: absolute times drift with the machine. */
export interface Row {
  /** What is measured. */
  what: string;
  /** What it is measured beside, in the same run. */
  beside: string;
  ours: number;
  theirs: number;
  unit: 'ms' | 'a second' | 'events' | 'actions' | 'of the ideal';
  ratio: number;
  /** The figure that the ratio has to reach. */
  wanted?: { atMost: number } | { atLeast: number };
}

export function row(
  what: string,
  [beside, theirs]: [string, number],
  ours: number,
  unit: Row['unit'],
  wanted?: Row['wanted'],
): Row {
  return { what, beside, ours, theirs, unit, ratio: ours / theirs, wanted };
}

export function isMet({ ratio, wanted }: Row): boolean | undefined {
  if (!wanted) return undefined;
  return 'atMost' in wanted ? ratio <= wanted.atMost : ratio >= wanted.atLeast;
}

export function table(rows: readonly Row[]): string {
  const table = new Table({ head: ['', 'ratio', 'wanted', 'ours', '', 'beside'] });
  for (const row of rows) {
    const { what, beside, ours, theirs, unit, ratio, wanted } = row;
    const bound = wanted && ('atMost' in wanted ? `≤ ${wanted.atMost}` : `≥ ${wanted.atLeast}`);
    const met = isMet(row) === false ? `${bound} missed` : bound;
    table.push([what, ratio.toFixed(2), met ?? '', `${short(ours)} ${unit}`, short(theirs), beside]);
  }
  return table.toString();
}

function short(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
