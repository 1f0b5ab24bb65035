mkdir -p old
mv test/parse.test.js old/parse.js
