sh /run/bench/fix.sh
printf "\nmodule.exports.plain = () => Boolean(process.env.CI || process.env.NO_COLOR);\n" >> src/duration.js
