// Countersign's reporter for vitest: one line for each test where the verifier reads them.
//
// It runs in vitest's own process; test files run in workers of it.
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const { canaries, open, id, nonce, relative } = require('./countersign_lines.cjs');
const own = fileURLToPath(import.meta.url);
const line = open(own, 'vitest');
const canary = path.join(path.dirname(own), `countersign_canary_${nonce(own)}.mjs`);

export default class {
  // Workers are started after this, with what the configuration says then: the canary is the last set-up file.
  onInit(vitest) {
    line({ begin: 'vitest' });
    for (const { config } of [...(vitest?.projects ?? []), vitest ?? {}]) {
      // In a browser there is no place where the verifier reads.
      if (!Array.isArray(config?.setupFiles) || config.browser?.enabled || config.setupFiles.includes(canary)) continue;
      try {
        config.setupFiles.push(canary);
      } catch {
        // Then there is no canary, and the strength says so.
      }
    }
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
    const passed = new Set();
    for (const file of files) {
      const name = relative(file.filepath);
      const failed = file.result?.state === 'fail';
      if (failed && file.tasks.length === 0) line({ collector: id([name]) });
      if (walk(file.tasks, [name])) passed.add(file.filepath);
    }
    for (const [file, status] of canaries(own, 'vitest-canary', passed)) line({ canary: id([relative(file)]), status });
    line({ end: errors?.length || files.some((file) => file.result?.state === 'fail') ? 1 : 0 });
  }
}

/** Tells of each test; whether any passed. */
function walk(tasks, above) {
  let passed = false;
  for (const task of tasks) {
    if (task.type === 'suite') {
      passed = walk(task.tasks, [...above, task.name]) || passed;
      continue;
    }
    const state = task.mode === 'skip' || task.mode === 'todo' ? 'skip' : task.result?.state;
    const status = { pass: 'passed', fail: 'failed' }[state] ?? 'skipped';
    passed ||= status === 'passed';
    line({ id: id([...above, task.name]), status });
  }
  return passed;
}
