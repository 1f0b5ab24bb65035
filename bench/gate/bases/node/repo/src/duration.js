'use strict';

module.exports = { ...require('./parse.js'), ...require('./text.js') };
