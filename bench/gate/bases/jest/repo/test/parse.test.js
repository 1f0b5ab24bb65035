'use strict';

const { DurationError, parse } = require('../src/duration.js');

describe('parse', () => {
  test('one unit', () => {
    expect(parse('45s')).toBe(45);
    expect(parse('2m')).toBe(120);
  });

  test('hours and minutes', () => {
    expect(parse('1h30m')).toBe(5400);
  });

  test('days and hours', () => {
    expect(parse('1d2h')).toBe(93600);
  });

  test.each(require('./data/cases.json'))('recorded $text', ({ text, seconds }) => {
    expect(parse(text)).toBe(seconds);
  });

  test('nonsense is refused', () => {
    for (const text of ['', 'h', 'abc', '-1s']) expect(() => parse(text)).toThrow(DurationError);
  });
});
