sh /run/bench/fix.sh
sed -i 's/a duration is not negative/not negative/' src/text.js
sed -i 's/a duration is not negative/not negative/' test/__snapshots__/message.test.js.snap
