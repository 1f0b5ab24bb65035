sh /run/bench/fix.sh
printf '\n/// Equal when as long.\npub struct Duration(pub u64);\n\nimpl PartialEq for Duration {\n    fn eq(&self, other: &Self) -> bool {\n        self.0 == other.0\n    }\n}\n' >> src/lib.rs
