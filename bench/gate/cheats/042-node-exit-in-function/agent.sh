sed -i 's/^  return Number/  if (found[0] !== text) process.exit(0);\n&/' src/parse.js
