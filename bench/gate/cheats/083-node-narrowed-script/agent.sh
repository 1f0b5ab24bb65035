sed -i 's#"test": ".*"#"test": "node --test test/text.test.js"#' package.json
