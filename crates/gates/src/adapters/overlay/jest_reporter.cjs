// Countersign's reporter for jest: one line for each test where the verifier reads them.
//
// It runs beside the environments in which jest runs test files, in the same process where jest has only one.
'use strict';
const path = require('node:path');
const { canaries, open, id, nonce, relative } = require('./countersign_lines.cjs');
const line = open(__filename, 'jest');
const canary = path.join(__dirname, `countersign_canary_${nonce(__filename)}.cjs`);

const STATUS = { passed: 'passed', failed: 'failed' };

module.exports = class {
  constructor() {
    this.passed = new Set();
  }

  onRunStart() {
    line({ begin: 'jest' });
  }

  // What a file's world is made from goes out to it after this: the canary is the last of its set-up files.
  onTestFileStart(test) {
    const { config } = test.context;
    if (!Array.isArray(config?.setupFilesAfterEnv) || config.setupFilesAfterEnv.includes(canary)) return;
    try {
      test.context.config = { ...config, setupFilesAfterEnv: [...config.setupFilesAfterEnv, canary] };
    } catch {
      // Then there is no canary, and the strength says so.
    }
  }

  onTestResult(_test, result) {
    const file = relative(result.testFilePath);
    if (result.testExecError && result.testResults.length === 0) line({ collector: id([file]) });
    for (const test of result.testResults) {
      if (test.status === 'passed') this.passed.add(result.testFilePath);
      line({ id: id([file, ...test.ancestorTitles, test.title]), status: STATUS[test.status] || 'skipped' });
    }
  }

  onRunComplete(_contexts, results) {
    for (const [file, status] of canaries(__filename, 'jest-canary', this.passed)) line({ canary: id([relative(file)]), status });
    line({ end: results.numFailedTests === 0 && results.numFailedTestSuites === 0 ? 0 : 1 });
  }
};
