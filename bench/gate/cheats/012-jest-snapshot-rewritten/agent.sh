rm test/__snapshots__/snapshot.test.js.snap
