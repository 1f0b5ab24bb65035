sed -i "s/^  if (found === null) throw.*/  if (found === null) return 0;/" src/parse.js
