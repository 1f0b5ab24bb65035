// Countersign's reporter for mocha: its usual text, and one line for each test where the verifier reads them.
//
// Code under test shares this process, so a line is its word. A canary, a test that must fail, runs last, by a runner of
// the same kind, behind everything that the tests imported.
'use strict';
const { open, id, relative } = require('./countersign_lines.cjs');
const { told, ofAssert } = require('./countersign_lies.cjs');
const line = open(__filename, 'mocha');

const titles = (test) => test.titlePath();

module.exports = class {
  constructor(runner, options) {
    this.runner = runner;
    line({ begin: 'mocha' });
    const dry = Boolean(options && options.dryRun) || Boolean(runner._opts && runner._opts.dryRun);
    const tell = (test, status) =>
      line({ id: id([relative(test.file), ...titles(test)]), status: dry ? 'skipped' : status });
    // mocha takes a test that throws what its own `this.skip()` throws for one that ended well.
    const threw = watch(runner.suite);
    runner.on('pass', (test) => tell(test, threw.has(test) ? 'skipped' : 'passed'));
    runner.on('pending', (test) => tell(test, 'skipped'));
    runner.on('fail', (test) => {
      // A hook that fails takes tests with it, which then have no result.
      if (test.type === 'hook') line({ collector: id([relative(test.file), ...titles(test).slice(0, -1)]) });
      else tell(test, 'failed');
    });
    try {
      const { Spec } = runner.constructor.prototype && require(require.resolve('mocha', { paths: [process.cwd()] })).reporters;
      this.text = new Spec(runner, options);
    } catch {
      // Without mocha's own text only people miss something.
    }
  }

  done(failures, finish) {
    const end = () => {
      line({ end: failures });
      finish(failures);
    };
    canary(this.runner).then(
      (status) => {
        if (status) line({ canary: 'test', status });
        end();
      },
      () => end(),
    );
  }
};

/** The tests whose function threw, or whose promise was rejected. */
function watch(suite, threw = new WeakSet()) {
  for (const test of suite.tests) {
    const { fn } = test;
    if (typeof fn !== 'function') continue;
    // Whether it takes a callback was asked when the test was made.
    test.fn = function (...args) {
      let result;
      try {
        result = fn.apply(this, args);
      } catch (error) {
        threw.add(test);
        throw error;
      }
      if (result && typeof result.then === 'function') result.then(undefined, () => threw.add(test));
      return result;
    };
    test.fn.toString = () => fn.toString();
  }
  for (const inner of suite.suites) watch(inner, threw);
  return threw;
}

/** What a test that must fail is reported as; undefined where none could be made. */
async function canary(runner) {
  const lies = await allLies();
  return new Promise((resolve) => {
    const Suite = runner.suite.constructor;
    const suite = new Suite('countersign canary', undefined, true);
    const Test = findTest(runner.suite);
    if (!Test) return resolve(undefined);
    suite.addTest(
      new Test('canary', () => {
        // It fails as the tests do: by an assertion that throws.
        if (told(lies) !== 'passed') lies[0]();
      }),
    );
    const again = new runner.constructor(suite, {});
    let status = 'error';
    again.on('pass', () => { status = 'passed'; });
    again.on('fail', () => { status = 'failed'; });
    again.run(() => resolve(status), {});
  });
}

/** Lies to node's `assert` and, where the project has it, to chai. */
async function allLies() {
  const assert = require('node:assert');
  const lies = [...ofAssert(assert), ...ofAssert(assert.strict)];
  try {
    const { createRequire } = require('node:module');
    const main = createRequire(require('node:path').join(process.cwd(), 'package.json')).resolve('chai');
    const chai = await import(require('node:url').pathToFileURL(main).href);
    const { assert: own, expect } = chai.expect ? chai : chai.default;
    lies.push(
      () => own.equal(1, 2),
      () => own.strictEqual(1, 2),
      () => own.deepEqual({ a: 1 }, { a: 2 }),
      () => own.isTrue(false),
      () => expect(1).to.equal(2),
      () => expect({ a: 1 }).to.deep.equal({ a: 2 }),
      () => expect([1]).to.include(2),
      () => expect(false).to.be.true,
      () => expect(() => {}).to.throw(),
    );
  } catch {
    // The project does not have it.
  }
  return lies;
}

function findTest(suite) {
  if (suite.tests.length > 0) return suite.tests[0].constructor;
  for (const inner of suite.suites) {
    const found = findTest(inner);
    if (found) return found;
  }
  return undefined;
}
