import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compile, docstringExamples, typescriptOf } from '../support/compile-blocks';
import { pages } from '../support/pages';

// The blocks that name their source are compiled with the project.
test('every block of TypeScript in a page compiles against the entries of the package', () => {
  const own = typescriptOf(pages()).filter(({ source }) => source === undefined);
  assert.ok(own.length > 0);
  const wrong = { at: 'docs/made-up.md:3', code: 'await gpus.withPermit(() => 1, { timeuot: 5 });' };
  const [problem = '', ...others] = compile([...own, wrong]).reverse();
  assert.match(problem, /^docs\/made-up\.md:3: .*timeuot/);
  assert.deepEqual(others, []);
});

test('every example of a docstring compiles against the entries of the package', () => {
  const examples = docstringExamples();
  assert.ok(examples.length > 40, `${examples.length} examples`);
  assert.deepEqual(compile(examples), []);
});
