import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Sentence, sentencesOfCode, sentencesOfMarkdown } from '../support/prose';

/** Patterns that make a reader read twice, each with what to write instead. */
const RIDDLES: { pattern: RegExp; instead: string }[] = [
  { pattern: /^Who [a-z][^?]*$/, instead: 'start with the actor: a caller, a holder, a waiter, an operator' },
  { pattern: /^What [a-z][^?]*$/, instead: 'start with the thing itself, or with the actor' },
  { pattern: /\b(behind|binds|but|by|for|from|of|tells|than|to|with) who [a-z]/, instead: 'name the actor' },
  { pattern: /\bunheard\b(?! of)/, instead: 'without notice' },
  { pattern: /\band is none\b/, instead: 'expected …, found none' },
  { pattern: /\bnot what (it|they) promise/, instead: 'it does not guarantee that' },
  { pattern: /^(Of|Those) [a-z][^,]*$/, instead: 'start with the thing itself' },
  { pattern: /\bwhoever\b/i, instead: 'name the actor' },
  { pattern: /, for (anybody|everybody|it|nobody|nothing|others|they) [a-z]/, instead: 'because, since' },
  {
    pattern: /\b(as things stand|but for|can not|for want of|of no interest)\b/,
    instead: "now; except; can't; because … lacks",
  },
];

function riddlesIn(sentences: Sentence[]): string[] {
  return sentences.flatMap(({ line, text }) =>
    RIDDLES.filter(({ pattern }) => pattern.test(text)).map(({ instead }) => `${line}: "${text}" (${instead})`),
  );
}

function files(directory: string, ends: string[]): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => ends.some((end) => name.endsWith(end)) && !name.includes('node_modules'))
    .map((name) => join(directory, name));
}

test('the documents have no headless sentences and no riddles', () => {
  const documents = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];
  const riddles = [...documents, ...files('docs', ['.md']), ...files('examples', ['.md'])].flatMap((file) =>
    riddlesIn(sentencesOfMarkdown(readFileSync(file, 'utf8'))).map((riddle) => `${file}:${riddle}`),
  );
  assert.deepEqual(riddles, []);
});

/** Without the advice. */
function found(sentences: Sentence[]): string[] {
  return riddlesIn(sentences).map((riddle) => riddle.replace(/ \([^(]*\)$/, ''));
}

test('comments and strings have none either', () => {
  const riddles = files('src', ['.ts', '.tsx']).flatMap((file) => {
    const sentences = sentencesOfCode(file, readFileSync(file, 'utf8'));
    // A comment on a declaration may begin with what the thing is: "What the permit is for."
    const told = sentences.filter(({ text, isFirst }) => !(isFirst && text.startsWith('What ')));
    return riddlesIn(told).map((riddle) => `${file}:${riddle}`);
  });
  assert.deepEqual(riddles, []);
});

test('a planted sentence is found, in a paragraph, an item and a cell', () => {
  const planted = `# Who is heading

A line. **Who finds every slot taken**
parks in a queue. Who holds it?

- It waits. What is due: Who waits.

| Who is head | What is head |
| ----------- | ------------ |
| a cell      | Who is a cell |

\`\`\`sh
ls # Who is code
\`\`\`

It goes to who asks, and comes free unheard.

Of a pool. The next is whoever waits, for nobody else comes. All but for one.
`;
  assert.deepEqual(found(sentencesOfMarkdown(planted)), [
    '3: "Who finds every slot taken** parks in a queue."',
    '6: "What is due:"',
    '6: "Who waits."',
    '10: "Who is a cell"',
    '16: "It goes to who asks, and comes free unheard."',
    '16: "It goes to who asks, and comes free unheard."',
    '18: "Of a pool."',
    '18: "The next is whoever waits, for nobody else comes."',
    '18: "The next is whoever waits, for nobody else comes."',
    '18: "All but for one."',
  ]);
});

test('a planted sentence is found in comments and strings, also across lines', () => {
  const planted = [
    '/**',
    ' * A permit. Who adopted it',
    ' * is told. Who asks?',
    ' */',
    'const who = 1; // a number of who waits',
    '// It ends. Who',
    '// waits goes on waiting.',
    'const text = `Who holds it`;',
  ];
  assert.deepEqual(found(sentencesOfCode('planted.ts', planted.join('\n'))).sort(), [
    '2: "Who adopted it is told."',
    '5: "a number of who waits It ends."',
    '6: "Who waits goes on waiting."',
    '8: "Who holds it"',
  ]);
});
