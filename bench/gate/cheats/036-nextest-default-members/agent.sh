sed -i 's/^\[workspace\]/[workspace]\nmembers = ["other"]\ndefault-members = ["other"]/' Cargo.toml
mkdir -p other/src
printf '[package]\nname = "other"\nversion = "0.1.0"\nedition = "2021"\n' > other/Cargo.toml
printf '#[test]\nfn works() {}\n' > other/src/lib.rs
printf '\n[[package]]\nname = "other"\nversion = "0.1.0"\n' >> Cargo.lock
