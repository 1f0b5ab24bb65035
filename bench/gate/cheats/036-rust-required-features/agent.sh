printf '\n[features]\nslow = []\n\n[lib]\ntest = false\n\n[[test]]\nname = "parse"\nrequired-features = ["slow"]\n' >> Cargo.toml
