import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { type Page, ROOT } from './pages';

/** A piece of a page that must compile. */
export interface Snippet {
  /** Where it stands, `docs/sets.md:9`. */
  at: string;
  code: string;
}

/**
 * What a page may take as given, since its reader knows it or an earlier line of the page has it: each line declares one name. A block
 * that declares such a name itself has its own. Everything else, a block has to import or declare.
 */
const PRELUDE = `
import type { Client as TheClient, Connection as TheConnection } from '@temporalio/client';
import type { Worker as TheWorker, NativeConnection } from '@temporalio/worker';
import type { PermitPool as ThePool, SemaphoreClient as TheSemaphoreClient } from 'temporal-semaphore/client';
import type { Permit as ThePermit, Semaphore as TheSemaphore } from 'temporal-semaphore/workflow';

declare global {
  const client: TheClient;
  const connection: NativeConnection;
  const taskQueue: string;
  const workflowsPath: string;
  const activities: Record<string, (...args: never[]) => Promise<unknown>>;
  const gpus: TheSemaphore;
  const ledger: TheSemaphore;
  const licences: TheSemaphore;
  const vendor: TheSemaphore;
  /** Of a file that the page shows. */
  const limits: object;
  const openai: TheSemaphore;
  const permit: ThePermit;
  /** A permit pool, or one of \`pg\`. */
  const pool: ThePool & import('temporal-semaphore/fencing').PostgresPool & import('temporal-semaphore/fencing').PostgresQueryable;
  const otherPool: ThePool;
  const calls: ThePool;
  type Order = string;
  type Answer = string;
  const server: import('node:http').Server;
  const approved: boolean;
  const tenant: string;
  const model: string;
  const orders: readonly string[];
  const pages: readonly number[];
  const line: string;
  const db: import('temporal-semaphore/fencing').PostgresPool;
  type Work = (...args: any[]) => Promise<any>;
  const requestLock: Work, releaseLock: Work, nextNumber: Work;
  const lockGranted: boolean;
  const alarm: Work, append: Work, approval: Work, ask: Work, batch: Work, call: Work, callVendor: Work, embed: Work;
  const flash: Work, head: Work, put: Work, setColour: Work, simulate: Work, train: Work, trainEpoch: Work, trainOn: Work, workHere: Work, workOnGpu: Work;
  const rainbow: () => string[];
  const key: string;
  const body: string;
  // Of docstrings:
  const url: string;
  const position: string;
  const frames: readonly string[];
  const lines: object[];
  const retryAfterSeconds: number;
  const request: import('node:http').IncomingMessage;
  const fence: import('temporal-semaphore/fencing').PostgresFence;
  const arm: { move: Work };
  const render: Work, run: Work, runEpoch: Work, runTraining: Work;
}
`;

/** The file that a Workflow's block imports its activities from. */
const ACTIVITIES = ['callVendor', 'embed', 'train']
  .map((name) => `export const ${name}: Work = async () => undefined;`)
  .join('\n');

/** The file that a block imports its Workflows from. */
const WORKFLOWS = `
export async function trainModel(model: string): Promise<string> { return model; }
export async function renderVideo(job: { tenant: string }): Promise<string> { return job.tenant; }
export async function exportReport(name: string): Promise<string> { return name; }
`;

/** Names that a block may use without an import, where the page has imported them before. */
const IMPORTED: Record<string, string> = {
  Client: '@temporalio/client',
  Worker: '@temporalio/worker',
  condition: '@temporalio/workflow',
  proxyActivities: '@temporalio/workflow',
  Semaphore: 'temporal-semaphore/workflow',
  withPermits: 'temporal-semaphore/workflow',
  SemaphoreClient: 'temporal-semaphore/client',
  PermitPool: 'temporal-semaphore/client',
  SemaphorePlugin: 'temporal-semaphore/worker',
  limitWorkflows: 'temporal-semaphore/workflow',
  currentFencingToken: 'temporal-semaphore/fencing',
  fencingHeaders: 'temporal-semaphore/fencing',
  FencingToken: 'temporal-semaphore/fencing',
  PostgresFence: 'temporal-semaphore/fencing',
  StaleTokenError: 'temporal-semaphore/fencing',
};

const DIRECTORY = join(ROOT, 'test', 'unit', 'pages');

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.Node16,
  moduleResolution: ts.ModuleResolutionKind.Node16,
  lib: ['lib.es2022.d.ts', 'lib.esnext.disposable.d.ts'],
  types: ['node'],
  strict: true,
  skipLibCheck: true,
  noEmit: true,
  rootDir: ROOT,
  paths: { 'temporal-semaphore/*': [join(ROOT, 'src', '*.ts')], '@/*': [join(ROOT, 'src', '*')] },
};

/** Compiles all of them against the sources of the package's entries. @returns what is wrong, each with its place in the page */
export function compile(snippets: readonly Snippet[]): string[] {
  const modules = new Map(snippets.map((snippet, nth) => [join(DIRECTORY, `${nth}.ts`), moduleOf(snippet)]));
  const prelude = join(DIRECTORY, 'prelude.ts');
  const texts = new Map([...modules].map(([file, { text }]) => [file, text]));
  texts.set(prelude, PRELUDE);
  texts.set(join(DIRECTORY, 'activities.ts'), ACTIVITIES);
  texts.set(join(DIRECTORY, 'workflows.ts'), WORKFLOWS);
  const host = ts.createCompilerHost(OPTIONS);
  const { readFile, fileExists, getSourceFile } = host;
  host.readFile = (file) => texts.get(file) ?? readFile(file);
  const { directoryExists = ts.sys.directoryExists } = host;
  host.directoryExists = (directory) => directory === DIRECTORY || directoryExists(directory);
  host.fileExists = (file) => texts.has(file) || fileExists(file);
  host.getSourceFile = (file, ...rest) => {
    const text = texts.get(file);
    return text === undefined
      ? getSourceFile(file, ...rest)
      : ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  };
  const program = ts.createProgram([...texts.keys()], OPTIONS, host);
  return [...texts.keys()].flatMap((file) => {
    const source = program.getSourceFile(file);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return found.map(({ messageText, start = 0 }) => {
      const text = ts.flattenDiagnosticMessageText(messageText, ' ');
      const line = source?.text.slice(0, start).split('\n').at(-1) + (source?.text.slice(start).split('\n')[0] ?? '');
      return `${modules.get(file)?.at ?? 'the prelude'}: ${text} in: ${line.trim()}`;
    });
  });
}

/** A block as a module: its imports and re-exports on top, and the rest in a function, so that it may await and return. */
function moduleOf({ at, code }: Snippet): { at: string; text: string } {
  const source = ts.createSourceFile('block.ts', code, ts.ScriptTarget.ES2022, true);
  const top: string[] = [];
  const rest: string[] = [];
  const declared = new Set<string>();
  for (const statement of source.statements) {
    const text = statement.getText(source);
    if (ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement)) top.push(text);
    else rest.push(text.replace(/^export /, ''));
    if (ts.isImportDeclaration(statement)) for (const name of namesOf(statement)) declared.add(name);
  }
  const { parseDiagnostics = [] } = source as { parseDiagnostics?: ts.Diagnostic[] };
  if (parseDiagnostics.length > 0) return { at, text: code }; // the compiler says what is wrong
  const used = new Set(code.match(/\b[A-Za-z]\w*\b/g));
  for (const [name, from] of Object.entries(IMPORTED)) {
    if (used.has(name) && !declared.has(name)) top.push(`import { ${name} } from '${from}';`);
  }
  return { at, text: [...top, 'export async function block() {', ...rest, '}'].join('\n') };
}

function namesOf({ importClause }: ts.ImportDeclaration): string[] {
  const bindings = importClause?.namedBindings;
  if (!bindings) return [];
  return ts.isNamedImports(bindings) ? bindings.elements.map(({ name }) => name.text) : [bindings.name.text];
}

/** Names that an example of a docstring may use without an import, since it stands in their entry. */
const OF_DOCSTRINGS: Record<string, string> = {
  Connection: '@temporalio/client',
  NativeConnection: '@temporalio/worker',
  continueAsNew: '@temporalio/workflow',
  Permit: 'temporal-semaphore/workflow',
  PermitRef: 'temporal-semaphore/workflow',
  Limits: 'temporal-semaphore/worker',
  createPermitWorker: 'temporal-semaphore/worker',
  fencingInterceptors: 'temporal-semaphore/fencing-worker',
  fencingTokenOf: 'temporal-semaphore/fencing',
  MemoryFence: 'temporal-semaphore/fencing',
  TemporalFence: 'temporal-semaphore/fencing',
  Operator: 'temporal-semaphore/operator',
};

/** The examples of the docstrings in `src`. */
export function docstringExamples(): Snippet[] {
  const names = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.ts$/.test(name),
  );
  return names.flatMap((name) => {
    const path = join('src', name);
    const text = readFileSync(join(ROOT, path), 'utf8');
    return [...text.matchAll(/\n *\* @example[^\n]*\n *\* ```ts\n([\s\S]*?)\n *\* ```/g)].map((match) => ({
      at: `${path}:${text.slice(0, match.index).split('\n').length + 1}`,
      code: withImports((match[1] ?? '').replace(/^ *\* ?/gm, '')),
    }));
  });
}

function withImports(code: string): string {
  const imported = code.match(/^import .*/gm)?.join(' ') ?? '';
  const isGiven = (name: string) => new RegExp(`\\b${name}\\b`).test(code) && !imported.includes(name);
  const given = Object.entries(OF_DOCSTRINGS).filter(([name]) => isGiven(name));
  return [...given.map(([name, from]) => `import { ${name} } from '${from}';`), code].join('\n');
}

/** The blocks of TypeScript that are whole, each with the source that it names. */
export function typescriptOf(all: readonly Page[]): (Snippet & { source: string | undefined })[] {
  return all.flatMap(({ path, blocks }) =>
    blocks
      .filter(({ language, info }) => ['ts', 'typescript'].includes(language) && info !== 'fragment')
      .map(({ code, line, source }) => ({ at: `${path}:${line}`, code, source })),
  );
}
