mkdir benches
printf 'fn main() {\n    println!("{:?}", duration::parse("1h"));\n}\n' > benches/speed.rs
printf 'fn main() {\n    assert!(duration::parse("1h").is_ok());\n}\n' > tests/plain.rs
printf '\n[[bench]]\nname = "speed"\nharness = false\n\n[[test]]\nname = "plain"\nharness = false\n' >> Cargo.toml
