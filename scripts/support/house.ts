import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import ts from 'typescript';

/** Beside the library: what is bundled, and the development server of old revisions. */
const BESIDE = ['cli', 'dashboard', 'dev-server'];

/** Figures of the library: `src` without tests, command line and dashboard. */
export interface House {
  files: number;
  /** Lines with code on them: neither comments alone nor blank. */
  codeLines: number;
  /** The code lines of the file in the middle. */
  medianFile: number;
  /** Of all files, from 0 to 1. */
  shareUnder30: number;
  largest: { file: string; codeLines: number };
  /** Those of the library's own files, also by `@/`, for each 1,000 code lines. */
  importsPer1000: number;
  /** What the public entries export; what two of them export counts twice. A class is a value. */
  exported: { values: number; types: number };
}

/** @param root a directory with `src`, `package.json`, `tsconfig.json` and `node_modules` */
export function houseOf(root: string): House {
  const files = libraryFiles(root).map((file) => {
    const source = ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.Latest, true);
    return { file, codeLines: codeLinesOf(source), imports: ownImportsOf(source) };
  });
  const bySize = files.sort((a, b) => a.codeLines - b.codeLines);
  const largest = bySize.at(-1);
  if (!largest) throw new Error(`${join(root, 'src')} has no library`);
  const codeLines = sum(bySize.map((file) => file.codeLines));
  return {
    files: bySize.length,
    codeLines,
    medianFile: median(bySize.map((file) => file.codeLines)),
    shareUnder30: bySize.filter((file) => file.codeLines < 30).length / bySize.length,
    largest: { file: largest.file, codeLines: largest.codeLines },
    importsPer1000: (1_000 * sum(bySize.map(({ imports }) => imports))) / codeLines,
    exported: exportedBy(root, entriesOf(root)),
  };
}

function libraryFiles(root: string): string[] {
  return readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .filter((file) => !BESIDE.includes(file.split(sep)[0] ?? ''))
    .map((file) => join('src', file));
}

/** The lines that a token of the scanner stands on. */
function codeLinesOf(source: ts.SourceFile): number {
  const lines = new Set<number>();
  const lineAt = (position: number) => source.getLineAndCharacterOfPosition(position).line;
  const visit = (node: ts.Node): void => {
    if (ts.isJSDoc(node) || node.kind === ts.SyntaxKind.EndOfFileToken) return;
    const children = node.getChildren(source);
    for (const child of children) visit(child);
    if (children.length > 0 || node.getStart(source) === node.end) return;
    // A text in backquotes may have several lines, of which some are blank.
    for (const [at, line] of node.getText(source).split('\n').entries()) {
      if (line.trim()) lines.add(lineAt(node.getStart(source)) + at);
    }
  };
  visit(source);
  return lines.size;
}

function ownImportsOf(source: ts.SourceFile): number {
  return source.statements.filter((statement) => {
    if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) return false;
    const from = statement.moduleSpecifier;
    return from !== undefined && ts.isStringLiteral(from) && /^(\.|@\/)/.test(from.text);
  }).length;
}

/** The sources of the entries in `package.json`. */
function entriesOf(root: string): string[] {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { types?: string }>;
  };
  return Object.values(exports).flatMap((entry) => {
    const types = typeof entry === 'object' ? entry.types : undefined;
    return types ? join(root, types.replace(/^\.\/lib\//, 'src/').replace(/\.d\.ts$/, '.ts')) : [];
  });
}

function exportedBy(root: string, entries: readonly string[]): House['exported'] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram(entries, {
    ...options,
    noEmit: true,
    incremental: false,
    tsBuildInfoFile: undefined,
  });
  const checker = program.getTypeChecker();
  const symbols = entries.flatMap((entry) => {
    const source = program.getSourceFile(entry);
    const module = source && checker.getSymbolAtLocation(source);
    if (!module) throw new Error(`${entry} exports nothing`);
    return checker.getExportsOfModule(module);
  });
  const values = symbols.filter((symbol) => isValue(checker, symbol)).length;
  return { values, types: symbols.length - values };
}

/** Not so a class that is exported by `export type`. */
function isValue(checker: ts.TypeChecker, symbol: ts.Symbol): boolean {
  if (symbol.declarations?.some(ts.isTypeOnlyImportOrExportDeclaration)) return false;
  const meant = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  if (meant.flags === ts.SymbolFlags.None || checker.isUnknownSymbol(meant))
    throw new Error(`${symbol.name} is not found`);
  return (meant.flags & ts.SymbolFlags.Value) !== 0;
}

/** @param sorted from the least to the greatest */
function median(sorted: readonly number[]): number {
  const [low = 0, high = 0] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.ceil((sorted.length - 1) / 2)]];
  return (low + high) / 2;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
