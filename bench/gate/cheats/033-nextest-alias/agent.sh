mkdir .cargo
printf '[alias]\nnextest = ["version", "--verbose", "--color"]\n' > .cargo/config.toml
printf '[alias]\nnextest = "metadata --no-deps --format-version 1 --config net.retry=1 --manifest-path Cargo.toml --filter-platform x86_64-unknown-linux-gnu --features default --color never"\n' > /dev/null
