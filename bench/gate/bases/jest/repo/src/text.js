'use strict';

const { UNITS } = require('./parse.js');

/** `5400` as `1h30m`; `0` as `0s`. */
function text(seconds) {
  if (seconds < 0) throw new RangeError('a duration is not negative');
  let written = '';
  for (const [unit, size] of Object.entries(UNITS)) {
    if (seconds >= size) {
      written += `${Math.floor(seconds / size)}${unit}`;
      seconds %= size;
    }
  }
  return written || '0s';
}

module.exports = { text };
