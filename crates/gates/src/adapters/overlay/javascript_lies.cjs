// Countersign's lies: assertions that must throw, for the canaries of JavaScript runners. What code under test put in place of
// the library's functions is what its tests called.
'use strict';

/** Whether each lie throws: 'failed' where all do, 'passed' where one is taken for true, 'error' where nothing can be told. */
exports.told = (lies) => {
  if (lies.length === 0) return 'error';
  for (const lie of lies) {
    let thrown = false;
    try {
      lie();
    } catch {
      thrown = true;
    }
    if (!thrown) return 'passed';
  }
  return 'failed';
};

/** Lies to node's own `assert`, or to a module like it. */
exports.ofAssert = (assert) => [
  () => assert(false),
  () => assert.ok(0),
  () => assert.equal(1, 2),
  () => assert.strictEqual(1, 2),
  () => assert.deepEqual({ a: 1 }, { a: 2 }),
  () => assert.deepStrictEqual([1], [2]),
  () => assert.throws(() => {}),
  () => assert.match('a', /b/),
];

/** Lies to the `expect` of jest and vitest. */
exports.ofExpect = (expect) => [
  () => expect(1).toBe(2),
  () => expect(1).not.toBe(1),
  () => expect({ a: 1 }).toEqual({ a: 2 }),
  () => expect([1]).toStrictEqual([2]),
  () => expect(0).toBeTruthy(),
  () => expect(1).toBeFalsy(),
  () => expect(undefined).toBeDefined(),
  () => expect(1).toBeNull(),
  () => expect(1).toBeGreaterThan(2),
  () => expect([1]).toContain(2),
  () => expect([1]).toHaveLength(2),
  () => expect('a').toMatch(/b/),
  () => expect({ a: 1 }).toMatchObject({ a: 2 }),
  () => expect({ a: 1 }).toHaveProperty('b'),
  () => expect(() => {}).toThrow(),
];
