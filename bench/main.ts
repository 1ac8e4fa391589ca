import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { Command, Option } from 'commander';
import { basics } from './basics';
import { charts } from './charts';
import { contend } from './contend';
import { costs } from './costs';
import { growth, type Point } from './growth';
import { makespans, throughput } from './loads';
import { losses } from './losses';
import { isMet, type Row, table } from './report';
import { resources } from './resources';
import { rivals } from './rivals';
import { type Bench, withBench } from './support';
import { waitingHours } from './waiting-hours';

/** In this order, one after the other. `costs` takes 15 minutes and `waiting` 28, in which next to nothing happens. */
const PARTS: Record<string, (bench: Bench) => Promise<Row[]>> = {
  basics,
  throughput,
  makespans,
  losses,
  resources,
  costs,
  rivals,
  waiting: waitingHours,
};

interface Options {
  json?: boolean;
  growth?: string;
}

/** `pnpm bench [part…]`: everything on one server in one run; ratios first. */
async function main(): Promise<void> {
  const command = new Command('bench')
    .argument('[part...]', `what to measure: ${Object.keys(PARTS).join(', ')}; all of them when none is named`)
    .addOption(new Option('--json', 'print JSON instead of a table'))
    .addOption(new Option('--growth <directory>', 'measure how it grows instead, and write the curves there as SVG'))
    .parse();
  const chosen = command.args.length > 0 ? command.args : Object.keys(PARTS);
  const unknown = chosen.find((part) => !PARTS[part]);
  if (unknown) command.error(`error: no part is named ${unknown}; there are ${Object.keys(PARTS).join(', ')}`);
  const options = command.opts<Options>();

  const rows: Row[] = [];
  let points: Point[] = [];
  await withBench(async (bench) => {
    await contend(bench, 'parkingConsumer', 4, { capacity: 2, holdMs: 10 }); // warm
    if (options.growth) {
      points = await growth(bench);
      return;
    }
    for (const part of chosen) {
      console.error(`Measuring: ${part}`);
      // What else was measured is shown even if one fails.
      rows.push(...((await PARTS[part]?.(bench).catch(tell)) ?? []));
    }
  });

  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  if (options.growth) {
    for (const [name, svg] of await charts(points)) writeFileSync(`${options.growth}/${name}.svg`, svg);
    console.log(options.json ? JSON.stringify({ commit, points }, undefined, 2) : points);
  } else if (options.json) {
    console.log(JSON.stringify({ commit, rows: rows.map((row) => ({ ...row, met: isMet(row) })) }, undefined, 2));
  } else {
    console.log(`Commit ${commit}, one server and all workers on this machine\n${table(rows)}`);
  }
}

function tell(error: unknown): void {
  console.error(error);
  process.exitCode = 1;
}

main().catch(tell);
