// Countersign's reporter for vitest: one line for each test where the verifier reads them.
//
// It runs in vitest's own process; test files run in workers of it.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const { open, id, relative } = require('./countersign_lines.cjs');
const line = open(fileURLToPath(import.meta.url), 'vitest');

export default class {
  onInit() {
    line({ begin: 'vitest' });
  }

  // Up to version 3.
  onFinished(files, errors) {
    if (files) this.tell(files, errors);
  }

  // From version 3 on.
  onTestRunEnd(modules, errors) {
    this.tell(modules.map((module) => module.task), errors);
  }

  tell(files, errors) {
    if (this.told) return;
    this.told = true;
    for (const file of files) {
      const name = relative(file.filepath);
      const failed = file.result?.state === 'fail';
      if (failed && file.tasks.length === 0) line({ collector: id([name]) });
      walk(file.tasks, [name]);
    }
    line({ end: errors?.length || files.some((file) => file.result?.state === 'fail') ? 1 : 0 });
  }
}

function walk(tasks, above) {
  for (const task of tasks) {
    if (task.type === 'suite') {
      walk(task.tasks, [...above, task.name]);
      continue;
    }
    const state = task.mode === 'skip' || task.mode === 'todo' ? 'skip' : task.result?.state;
    const status = { pass: 'passed', fail: 'failed' }[state] ?? 'skipped';
    line({ id: id([...above, task.name]), status });
  }
}
