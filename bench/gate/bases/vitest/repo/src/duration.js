const UNITS = { d: 86400, h: 3600, m: 60, s: 1 };

export class DurationError extends Error {}

/** Seconds in a duration such as `45s` or `1h30m`. */
export function parse(text) {
  const found = /^(\d+)([smhd])/.exec(text);
  if (found === null) throw new DurationError(`${JSON.stringify(text)} is no duration`);
  return Number(found[1]) * UNITS[found[2]];
}

/** `5400` as `1h30m`; `0` as `0s`. */
export function text(seconds) {
  let written = '';
  for (const [unit, size] of Object.entries(UNITS)) {
    if (seconds >= size) {
      written += `${Math.floor(seconds / size)}${unit}`;
      seconds %= size;
    }
  }
  return written || '0s';
}
