'use strict';

const { text } = require('../src/duration.js');

test('zero', () => {
  expect(text(0)).toBe('0s');
});

test('several units', () => {
  expect(text(5400)).toBe('1h30m');
});
