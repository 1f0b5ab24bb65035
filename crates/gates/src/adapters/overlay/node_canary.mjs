// Countersign's canary for node's own test runner: in the process of each test file, behind its tests and everything that
// they imported, assertions that must fail are made. It is loaded before the file, under a name that is new in every run.
import { openSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

if (process.env.NODE_TEST_CONTEXT !== undefined) {
  const nonce = path.basename(fileURLToPath(import.meta.url), '.mjs').split('_').pop();
  const { createRequire } = await import('node:module');
  const require = createRequire(import.meta.url);
  const report = openSync(`/run/countersign/report/${nonce}/node`, 'a', 0o600);
  const write = writeSync;
  const stringify = JSON.stringify;
  // A script without tests is reported by its file: that counts where nothing ended its process early.
  const ends = openSync(`/run/countersign/report/${nonce}/node-ends`, 'a', 0o600);
  const file = process.argv[1];
  process.on('beforeExit', () => write(ends, `${stringify(file)}\n`));
  process.on('exit', () => {
    // Looked up now: what code under test put in place of the library's functions is what its tests called.
    let result = 'failed';
    try {
      for (const name of ['node:assert', 'node:assert/strict']) {
        const assert = require(name);
        const lies = [
          () => assert(false),
          () => assert.ok(0),
          () => assert.equal(1, 2),
          () => assert.strictEqual(1, 2),
          () => assert.deepEqual({ a: 1 }, { a: 2 }),
          () => assert.deepStrictEqual([1], [2]),
          () => assert.throws(() => {}),
          () => assert.match('a', /b/),
        ];
        for (const lie of lies) {
          let thrown = false;
          try {
            lie();
          } catch {
            thrown = true;
          }
          if (!thrown) result = 'passed';
        }
      }
    } catch {
      result = 'error';
    }
    write(report, `${stringify({ canary: 'assert', status: result })}\n`);
  });
}
