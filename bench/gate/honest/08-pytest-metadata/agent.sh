sh /run/bench/fix.sh
sed -i 's/^version.*/version = "1.0.1"/; s/^description.*/description = "Reads and writes durations such as 1h30m"/' pyproject.toml
