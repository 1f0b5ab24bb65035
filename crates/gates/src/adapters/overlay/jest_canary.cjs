// Countersign's canary for jest: in the world of each test file, behind its tests and everything that they loaded, assertions
// that must fail are made. It is the last of the set-up files, under a name that is new in every run.
'use strict';
try {
  plant();
} catch {
  // Then there is no canary, and the strength says so; the tests themselves must not suffer.
}

function plant() {
  const { afterAll, expect, jest } = require('@jest/globals');
  const [fs, path] = [jest.requireActual('fs'), jest.requireActual('path')];
  const { told, ofAssert, ofExpect } = jest.requireActual('./countersign_lies.cjs');

  // Bound now: code under test, which comes later, may replace what modules hold.
  const { stringify } = JSON;
  const { writeSync } = fs;
  const nonce = path.basename(__filename, '.cjs').split('_').pop();
  const report = fs.openSync(`/run/countersign/report/${nonce}/jest-canary`, 'a', 0o600);
  const file = expect.getState().testPath;
  const tell = (status) => writeSync(report, `${stringify({ file, status })}\n`);
  const parts = (value) => (value ? [value, ...Object.keys(value).map((key) => value[key])] : [value]);
  const globals = () => ['test', 'it', 'describe'].flatMap((name) => parts(globalThis[name]));
  const held = globals();

  tell('begin');
  afterAll(() => {
    let status = 'error';
    try {
      const assert = jest.requireActual('assert');
      const lies = [...ofExpect(require('@jest/globals').expect), ...ofAssert(assert), ...ofAssert(assert.strict)];
      if (globalThis.expect) lies.push(...ofExpect(globalThis.expect));
      status = told(lies);
      // Who replaces what declares tests may do so for a reason; what such tests show, nobody can say.
      const now = globals();
      if (status === 'failed' && (now.length !== held.length || now.some((part, index) => part !== held[index]))) status = 'error';
    } catch {
      status = 'error';
    }
    tell(status);
  });
}
