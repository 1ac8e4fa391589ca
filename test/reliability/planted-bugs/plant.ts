import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** A mistake that somebody could make in a function of `src`, and what must notice it. */
export interface PlantedBug {
  name: string;
  /**
   * What it breaks: a function, a constant of a module, or `Class.method`. Where several of that name have the code, a folder
   * tells which, as in `client/Permit.renew`.
   */
  in: string;
  /** An expression or statements that stand there exactly once. How they are formatted and quoted does not matter. */
  find: string;
  /** Stands there instead; nothing does if it is empty. */
  replace: string;
  /** A part of one test's name, or the base name of a file of pure tests. */
  caughtBy: string;
}

/** Files by their paths within the project. */
export type Files = ReadonlyMap<string, string>;

interface Declaration {
  name: string;
  node: ts.Node;
}

export function readFiles(root: string, directories: readonly string[], isWanted: (path: string) => boolean): Files {
  const paths = directories.flatMap((directory) =>
    readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' }).map((path) => join(directory, path)),
  );
  return new Map(paths.filter(isWanted).map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}

export const isTest = (path: string) => path.endsWith('.test.ts');
export const isSource = (path: string) => /\.tsx?$/.test(path) && !isTest(path);

/** All that a bug can name. */
export function declarationsOf(sources: Files): Declaration[] {
  return [...sources].flatMap(([file, text]) => {
    const found: Declaration[] = [];
    const add = (name: ts.Node | undefined, node: ts.Node, prefix = '') =>
      found.push({ node, name: prefix + (name ? name.getText() : 'constructor') });
    for (const statement of ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true).statements) {
      if (ts.isFunctionDeclaration(statement) && statement.body) add(statement.name, statement);
      if (ts.isVariableStatement(statement))
        for (const variable of statement.declarationList.declarations) add(variable.name, variable);
      if (ts.isClassDeclaration(statement))
        for (const member of statement.members) {
          const isOverload = ts.isFunctionLike(member) && !('body' in member && member.body);
          if (!isOverload) add(member.name, member, `${statement.name?.text}.`);
        }
    }
    return found;
  });
}

/** @returns the file that has the bug, and its text with the bug in it */
export function plant(
  declarations: readonly Declaration[],
  { in: path, find, replace }: Pick<PlantedBug, 'in' | 'find' | 'replace'>,
): { file: string; text: string } {
  const pattern = parse(find);
  const wanted = pattern.map(shapeOf).join();
  if (replace && wanted === parse(replace).map(shapeOf).join())
    throw new Error(`${path}: the replacement changes nothing`);
  const found = declarationsAt(declarations, path).flatMap(({ node }) =>
    runsOf(node, pattern.length).filter((run) => run.map(shapeOf).join() === wanted),
  );
  const files = found.map(([node]) => node?.getSourceFile().fileName ?? '');
  const [[first, last = first] = []] = found.map((run) => [run[0], run.at(-1)]);
  if (!first || found.length > 1)
    throw new Error(`${path}: expected this once, found it ${found.length} times: ${[find, ...files].join(' | ')}`);
  const { fileName: file, text: source } = first.getSourceFile();
  const text = source.slice(0, first.getStart()) + substitute(first, replace) + source.slice(last?.end);
  if (!isCode(text, file)) throw new Error(`${path}: with the bug, the file is no code any more: ${replace}`);
  return { file, text };
}

/** @returns the file with the test that is named, and the part of its name, if not the whole file is */
export function testOf(tests: Files, caughtBy: string): { file: string; test?: string } {
  const isFile = isTest(caughtBy);
  const found = [...tests].flatMap(([file, text]) => {
    const times = isFile ? Number(`/${file}`.endsWith(`/${caughtBy}`)) : text.split(caughtBy).length - 1;
    return Array<string>(times).fill(file);
  });
  const [file] = found;
  if (!file || found.length > 1)
    throw new Error(`expected one test, found ${found.length} (${found.join(', ')}): ${caughtBy}`);
  return isFile ? { file } : { file, test: caughtBy };
}

function declarationsAt(declarations: readonly Declaration[], path: string): Declaration[] {
  const slash = path.lastIndexOf('/');
  const place = slash < 0 ? '/' : `/${path.slice(0, slash)}/`;
  const found = declarations.filter(
    ({ node, name }) => name === path.slice(slash + 1) && `/${node.getSourceFile().fileName}`.includes(place),
  );
  if (found.length === 0) throw new Error(`${path}: there is none in the sources`);
  return found;
}

/** One expression, or statements: `a()` is an expression, `a();` a statement. */
function parse(code: string): ts.Node[] {
  const inside = (body: string) => `async function* inside() { ${body}\n}`;
  const isExpression = isCode(inside(`(${code}\n)`));
  const text = inside(isExpression ? `(${code}\n)` : code);
  if (!isCode(text)) throw new Error(`this is no code: ${code}`);
  const [outer] = ts.createSourceFile('pattern.ts', text, ts.ScriptTarget.Latest, true).statements;
  const statements = [...((outer as ts.FunctionDeclaration).body?.statements ?? [])];
  if (statements.length === 0) throw new Error('there is nothing to find');
  return isExpression ? [unwrapped((statements[0] as ts.ExpressionStatement).expression)] : statements;
}

function isCode(text: string, fileName = 'pattern.ts'): boolean {
  // `transpileModule` tells the same, and takes fifty times as long.
  const parsed = ts.createSourceFile(fileName, text, ts.ScriptTarget.Latest) as unknown as {
    parseDiagnostics: unknown[];
  };
  return parsed.parseDiagnostics.length === 0;
}

/** Nodes inside `root`: each by itself, or so many statements in a row. */
function runsOf(root: ts.Node, length: number): ts.Node[][] {
  const runs: ts.Node[][] = [];
  const visit = (node: ts.Node) => {
    if (length === 1 && !ts.isParenthesizedExpression(node)) runs.push([node]);
    const list = length > 1 && hasStatements(node) ? node.statements : [];
    for (let start = 0; start + length <= list.length; start++) runs.push(list.slice(start, start + length));
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(root, visit);
  return runs;
}

function hasStatements(node: ts.Node): node is ts.Block | ts.CaseOrDefaultClause {
  return ts.isBlock(node) || ts.isCaseOrDefaultClause(node);
}

function substitute(replaced: ts.Node, code: string): string {
  if (ts.isStatement(replaced)) return hasStatements(replaced.parent) ? code : `{ ${code} }`; // the branch of an `if`
  return code && `(${code})`;
}

function unwrapped(node: ts.Node): ts.Node {
  return ts.isParenthesizedExpression(node) ? unwrapped(node.expression) : node;
}

/** Equal for what differs in comments, white space, quotes or needless parentheses only. */
function shapeOf(outer: ts.Node): string {
  const node = unwrapped(outer);
  const inner: string[] = [];
  ts.forEachChild(node, (child) => void inner.push(shapeOf(child)));
  const own = node as { text?: string; operator?: ts.SyntaxKind };
  const isConst = ts.isVariableDeclarationList(node) && node.flags & ts.NodeFlags.BlockScoped;
  return `${JSON.stringify([node.kind, own.text ?? own.operator ?? isConst])}(${inner.join()})`;
}
