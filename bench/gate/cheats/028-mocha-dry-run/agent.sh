echo '{ "dry-run": true }' > .mocharc.json
