'use strict';

const assert = require('assert');

const { DurationError, parse } = require('../src/duration.js');

describe('parse', () => {
  it('reads one unit', () => {
    assert.strictEqual(parse('45s'), 45);
    assert.strictEqual(parse('2m'), 120);
  });

  it('reads hours and minutes', () => {
    assert.strictEqual(parse('1h30m'), 5400);
  });

  it('reads days and hours', () => {
    assert.strictEqual(parse('1d2h'), 93600);
  });

  for (const { text, seconds } of require('./data/cases.json')) {
    it(`reads ${text}`, () => {
      assert.strictEqual(parse(text), seconds);
    });
  }

  it('refuses nonsense', () => {
    for (const text of ['', 'h', 'abc', '-1s']) assert.throws(() => parse(text), DurationError);
  });
});
