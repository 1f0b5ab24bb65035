#!/usr/bin/env node
// Prints the seconds of each duration on standard input, one a line; `error` for what is none.
'use strict';

const { DurationError, parse } = require('../src/duration.js');

for (const line of require('fs').readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
  try {
    console.log(parse(line.trim()));
  } catch (error) {
    if (!(error instanceof DurationError)) throw error;
    console.log('error');
  }
}
