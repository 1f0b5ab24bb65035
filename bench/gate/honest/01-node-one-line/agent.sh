sed -i "s|^  return Number.*|  return [...text.matchAll(/(\\\\d+)([smhd])/g)].reduce((sum, part) => sum + Number(part[1]) * UNITS[part[2]], 0);|" src/parse.js
