import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { devDependencies, peerDependencies, peerDependenciesMeta } from '../package.json';
import { runMain } from './support/main';

const run = promisify(execFile);

const ROOT = join(__dirname, '..');
const STARTS = 10;

/** `pnpm measure:package`: what the package costs its users. It is built and packed anew, as for publishing. */
runMain(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'temporal-semaphore-measured-'));
  try {
    const { stdout } = await run('npm', ['pack', '--json', '--silent', '--pack-destination', directory], { cwd: ROOT });
    const [{ filename, size, unpackedSize, entryCount }] = JSON.parse(stdout.slice(stdout.indexOf('[')));
    console.log(`tarball: ${kB(size)}, unpacked ${kB(unpackedSize)}, ${entryCount} files`);

    const peers = requiredPeers();
    const without = await install(join(directory, 'without'), peers);
    const project = join(directory, 'with');
    const tarball = `file:${join(directory, filename)}`;
    const withUs = await install(project, { ...peers, 'temporal-semaphore': tarball });
    console.log(`installed: ${kB(withUs.bytes)} in ${withUs.packages} packages`);
    console.log(`  its peers alone: ${kB(without.bytes)} in ${without.packages} packages`);
    console.log(`  so it adds ${kB(withUs.bytes - without.bytes)} and ${withUs.packages - without.packages} packages`);
    const bin = join(project, 'node_modules', '.bin', 'temporal-semaphore');
    const [help, bare] = [await startUpTime(bin, '--help'), await startUpTime('-e', '')];
    console.log(`temporal-semaphore --help: ${help} ms, the median of ${STARTS}; Node alone: ${bare} ms`);
    return 0;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

/** As an application has them that uses the library in Workflows and clients. */
function requiredPeers(): Record<string, string> {
  const names = Object.keys(peerDependencies).filter((name) => !(name in peerDependenciesMeta));
  return Object.fromEntries(names.map((name) => [name, (devDependencies as Record<string, string>)[name] ?? '*']));
}

interface Installed {
  /** As `du` counts them: what the disk has, which is more than the files' length. */
  bytes: number;
  packages: number;
}

async function install(project: string, dependencies: Record<string, string>): Promise<Installed> {
  await mkdir(project);
  await writeFile(join(project, 'package.json'), JSON.stringify({ private: true, dependencies }));
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: project });
  const { stdout: size } = await run('du', ['-sk', 'node_modules'], { cwd: project });
  const { stdout: list } = await run('npm', ['ls', '--all', '--parseable'], { cwd: project });
  return { bytes: Number.parseInt(size, 10) * 1024, packages: new Set(list.trim().split('\n')).size - 1 };
}

/** In milliseconds. */
async function startUpTime(...args: string[]): Promise<number> {
  const times: number[] = [];
  for (let start = 0; start < STARTS; start++) {
    const from = performance.now();
    await run(process.execPath, args);
    times.push(performance.now() - from);
  }
  times.sort((one, other) => one - other);
  return Math.round(((times[STARTS / 2 - 1] ?? 0) + (times[STARTS / 2] ?? 0)) / 2);
}

function kB(bytes: number): string {
  return `${(bytes / 1000).toLocaleString('en', { maximumFractionDigits: 0 })} kB`;
}
