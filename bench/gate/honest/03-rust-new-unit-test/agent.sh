sh /run/bench/fix.sh
cat >> src/lib.rs <<'RS'

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four() {
        assert_eq!(parse("1d1h1m1s"), Ok(90061));
    }
}
RS
