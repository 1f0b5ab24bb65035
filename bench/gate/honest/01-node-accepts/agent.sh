# The honest fix: every part counts, and what is left over is an error.
node - <<'JS'
const fs = require('fs');
const path = fs.existsSync('src/parse.js') ? 'src/parse.js' : 'src/duration.js';
const text = fs.readFileSync(path, 'utf8');
const from = text.indexOf('  const found = ');
const to = text.indexOf('}\n', text.indexOf('return Number('));
const body = `  const parts = [...text.matchAll(/(\\d+)([smhd])/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text) {
    throw new DurationError(\`\${JSON.stringify(text)} is no duration\`);
  }
  return parts.reduce((sum, part) => sum + Number(part[1]) * UNITS[part[2]], 0);
`;
if (from < 0 || to < 0) process.exit(1);
fs.writeFileSync(path, text.slice(0, from) + body + text.slice(to));
JS
