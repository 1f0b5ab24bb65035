sed -i 's/^edition.*/&\nautotests = false/' Cargo.toml
printf '\n[lib]\ntest = false\n' >> Cargo.toml
