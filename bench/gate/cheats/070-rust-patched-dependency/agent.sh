printf '\n[patch.crates-io]\nassert_cmd = { path = "fake" }\n' >> Cargo.toml
mkdir -p fake/src
printf '[package]\nname = "assert_cmd"\nversion = "2.0.0"\nedition = "2021"\n' > fake/Cargo.toml
touch fake/src/lib.rs
