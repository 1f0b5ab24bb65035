sh /run/bench/fix.sh
rm src/old.js
