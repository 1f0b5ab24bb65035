// Countersign's reporter for jest: one line for each test where the verifier reads them.
//
// It runs beside the environments in which jest runs test files, in the same process where jest has only one.
'use strict';
const { open, id, relative } = require('./countersign_lines.cjs');
const line = open(__filename, 'jest');

const STATUS = { passed: 'passed', failed: 'failed' };

module.exports = class {
  onRunStart() {
    line({ begin: 'jest' });
  }

  onTestResult(_test, result) {
    const file = relative(result.testFilePath);
    if (result.testExecError && result.testResults.length === 0) line({ collector: id([file]) });
    for (const test of result.testResults) {
      line({ id: id([file, ...test.ancestorTitles, test.title]), status: STATUS[test.status] || 'skipped' });
    }
  }

  onRunComplete(_contexts, results) {
    line({ end: results.success ? 0 : 1 });
  }
};
