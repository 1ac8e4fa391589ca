import ts from 'typescript';

/** One sentence as a reader meets it. */
export interface Sentence {
  /** Counts from 1. */
  line: number;
  text: string;
  /** Whether a paragraph, a list item, a table's cell, a comment or a string begins with it. */
  isFirst: boolean;
}

/** The sentences of a Markdown file. Headings, code and the first row of a table are left out: they are no sentences. */
export function sentencesOfMarkdown(markdown: string): Sentence[] {
  const sentences: Sentence[] = [];
  const lines = markdown.split('\n');
  let paragraph: { line: number; words: string[] } | undefined;
  let isCode = false;
  const flush = () => {
    if (paragraph) sentences.push(...split(paragraph.words.join(' '), paragraph.line));
    paragraph = undefined;
  };
  for (const [index, text] of lines.entries()) {
    const line = index + 1;
    const isFence = /^\s*```/.test(text);
    if (isFence) isCode = !isCode;
    if (isCode || isFence || text.trim() === '' || text.startsWith('#')) {
      flush();
    } else if (text.startsWith('|')) {
      flush();
      const isHead = lines[index + 1]?.startsWith('| -') === true;
      if (!isHead) for (const cell of text.split('|')) sentences.push(...split(cell, line));
    } else {
      const item = /^\s*(?:[-*]|\d+\.) +/.exec(text);
      if (item) flush();
      paragraph ??= { line, words: [] };
      paragraph.words.push(text.slice(item?.[0].length ?? 0).trim());
    }
  }
  flush();
  return sentences;
}

/** The sentences in the comments and the strings of a TypeScript file. */
export function sentencesOfCode(file: string, code: string): Sentence[] {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.Latest, true);
  const lineAt = (position: number) => source.getLineAndCharacterOfPosition(position).line + 1;
  const comments = new Map<number, ts.CommentRange>();
  const sentences: Sentence[] = [];
  const visit = (node: ts.Node) => {
    for (const range of ts.getLeadingCommentRanges(code, node.getFullStart()) ?? []) comments.set(range.pos, range);
    for (const range of ts.getTrailingCommentRanges(code, node.getEnd()) ?? []) comments.set(range.pos, range);
    if (isText(node)) sentences.push(...split(node.text, lineAt(node.getStart())));
    for (const child of node.getChildren(source)) visit(child);
  };
  visit(source);
  for (const { text, position } of joined([...comments.values()], code))
    sentences.push(...split(text, lineAt(position)));
  return sentences;
}

function isText(node: ts.Node): node is ts.LiteralLikeNode {
  return ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node);
}

/** Comments without their marks. Adjacent lines of `//` count as one comment. */
function joined(comments: ts.CommentRange[], code: string): { text: string; position: number }[] {
  const texts: { text: string; position: number; end: number }[] = [];
  for (const { pos, end } of comments.sort((a, b) => a.pos - b.pos)) {
    const text = code
      .slice(pos, end)
      .replace(/\*\/$/, '')
      .replace(/^\/\*+|^\s*\*+ ?|^\/\/+/gm, '');
    const last = texts.at(-1);
    if (last && code.startsWith('//', pos) && /^\n *$/.test(code.slice(last.end, pos))) {
      last.text += `\n${text}`;
      last.end = end;
    } else {
      texts.push({ text, position: pos, end });
    }
  }
  return texts;
}

/** A full stop, a colon or the like ends a sentence before a capital. So does an empty line or a list's mark. */
const SENTENCE = /.+?(?:\n\s*\n|\n\s*(?=[-*@] )|(?:[.!?:;][)"'*_`]*|—)\s+(?=[*_`"'(]*[A-Z])|$)/gs;

function split(text: string, line: number): Sentence[] {
  const sentences: Sentence[] = [];
  for (const part of text.matchAll(SENTENCE)) {
    const words = part[0].replace(/\s+/g, ' ').replace(/^[\s*_`"'([|-]+|\s+$/g, '');
    const before = text.slice(0, part.index + (part[0].length - part[0].trimStart().length));
    if (words !== '')
      sentences.push({ line: line + before.split('\n').length - 1, text: words, isFirst: sentences.length === 0 });
  }
  return sentences;
}
