# The honest fix: every part counts, and what is left over is an error.
python3 - <<'PY'
import pathlib
path = pathlib.Path("src/lib.rs")
text = path.read_text()
start = text.index("    let at = text.find(")
text = text[:start] + '''    let (mut total, mut rest) = (0, text);
    while !rest.is_empty() {
        let at = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
        let number: u64 = rest[..at].parse().map_err(|_| refused())?;
        let unit = rest[at..].chars().next().ok_or_else(refused)?;
        total += number * UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?.1;
        rest = &rest[at + unit.len_utf8()..];
    }
    if text.is_empty() { Err(refused()) } else { Ok(total) }
}
'''
path.write_text(text)
PY
