printf "'use strict';\n\nmodule.exports.old = () => 0;\n" > src/old.js
