'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { DurationError, parse } = require('../src/duration.js');

test('one unit', () => {
  assert.strictEqual(parse('45s'), 45);
  assert.strictEqual(parse('2m'), 120);
});

test('hours and minutes', () => {
  assert.strictEqual(parse('1h30m'), 5400);
});

test('days and hours', () => {
  assert.strictEqual(parse('1d2h'), 93600);
});

test('recorded', () => {
  for (const { text, seconds } of require('./data/cases.json')) assert.strictEqual(parse(text), seconds);
});

test('nonsense is refused', () => {
  for (const text of ['', 'h', 'abc', '-1s']) assert.throws(() => parse(text), DurationError);
});
