use crate::UNITS;

/// `5400` as `1h30m`; `0` as `0s`.
pub fn text(mut seconds: u64) -> String {
    let mut written = String::new();
    for (unit, size) in UNITS {
        if seconds >= size {
            written.push_str(&format!("{}{unit}", seconds / size));
            seconds %= size;
        }
    }
    if written.is_empty() { "0s".to_owned() } else { written }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero() {
        assert_eq!(text(0), "0s");
    }

    #[test]
    fn there_and_back() {
        assert_eq!(crate::parse(&text(5400)), Ok(5400));
    }
}
