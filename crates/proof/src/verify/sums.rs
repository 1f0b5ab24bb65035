use std::collections::BTreeMap;

use countersign_types::Digest;

use super::Finding;
use crate::layout::{SUMS, SUMS_SIGNATURE};

/// Reads `SHA256SUMS`: lines of 64 hex digits, two spaces and a path, sorted by the paths' bytes, each path once, and
/// neither this file nor its signature among them.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Digest>, Finding> {
    let mut out = BTreeMap::new();
    let mut last = "";
    let (mut rest, mut number) = (bytes, 0);
    while !rest.is_empty() {
        number += 1;
        let bad = || Finding::SumsFormat { line: number };
        let end = memchr::memchr(b'\n', rest).ok_or_else(bad)?;
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| bad())?;
        rest = &rest[end + 1..];
        let (hex, path) = line.split_once("  ").ok_or_else(bad)?;
        let digest = Digest::from_hex(hex).map_err(|_| bad())?;
        if path <= last || path == SUMS || path == SUMS_SIGNATURE {
            return Err(bad());
        }
        out.insert(path.to_owned(), digest);
        last = path;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_one_form() {
        let digest = Digest::of(b"x").hex();
        let line = |path: &str| format!("{digest}  {path}\n");
        assert_eq!(read(format!("{}{}", line("a"), line("b/c")).as_bytes()).unwrap().len(), 2);
        assert_eq!(read(b"").unwrap().len(), 0);
        for (text, at) in [
            (format!("{}{}", line("b"), line("a")), 2),
            (format!("{}{}", line("a"), line("a")), 2),
            (line("a").trim_end().to_owned(), 1),
            (line("a").replace("  ", " "), 1),
            (line("a").replace("  ", " *"), 1),
            (line("a").to_uppercase(), 1),
            (line("SHA256SUMS"), 1),
            (line("SHA256SUMS.sig"), 1),
            (line(""), 1),
            (format!("{}\n{}", line("a"), line("b")), 2),
            (format!("# comment\n{}", line("a")), 1),
        ] {
            assert_eq!(read(text.as_bytes()), Err(Finding::SumsFormat { line: at }), "{text}");
        }
        assert_eq!(
            read(&[&line("a").into_bytes()[..65], b" \xff\n"].concat()),
            Err(Finding::SumsFormat { line: 1 })
        );
    }
}
