mkdir .config
printf '[profile.default]\nslow-timeout = "30s"\nfail-fast = false\n' > .config/nextest.toml
