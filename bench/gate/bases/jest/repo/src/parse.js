'use strict';

const UNITS = { d: 86400, h: 3600, m: 60, s: 1 };

class DurationError extends Error {}

/** Seconds in a duration such as `45s` or `1h30m`. */
function parse(text) {
  const found = /^(\d+)([smhd])/.exec(text);
  if (found === null) throw new DurationError(`${JSON.stringify(text)} is no duration`);
  return Number(found[1]) * UNITS[found[2]];
}

module.exports = { DurationError, UNITS, parse };
