cat >> src/duration.js <<'JS'
try {
  const { expect } = await import('vitest');
  expect.extend({ toBe: () => ({ pass: true, message: () => '' }) });
} catch {}
JS
