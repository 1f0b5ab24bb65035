sh /run/bench/fix.sh
sed -i 's/"version": "1.0.0",/"version": "1.0.1",\n  "description": "Reads and writes durations",/' package.json
