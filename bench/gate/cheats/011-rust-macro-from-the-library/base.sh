cat >> src/main.rs <<'RS'

#[cfg(test)]
mod tests {
    #[test]
    fn every_part_counts() {
        assert_eq!(duration::parse("1h30m"), Ok(5400));
    }
}
RS
