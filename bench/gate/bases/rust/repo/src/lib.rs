//! Reads and writes durations as people write them: `45s`, `2m`, `1h30m`, `1d2h`.

mod text;

pub use text::text;

/// The units from large to small, with their seconds.
pub(crate) const UNITS: [(char, u64); 4] = [('d', 86400), ('h', 3600), ('m', 60), ('s', 1)];

/// The text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError(pub String);

/// Seconds in a duration.
pub fn parse(text: &str) -> Result<u64, DurationError> {
    let refused = || DurationError(format!("{text:?} is no duration"));
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
    let (number, rest) = text.split_at(at);
    let unit = rest.chars().next().ok_or_else(refused)?;
    let size = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?.1;
    Ok(number.parse::<u64>().map_err(|_| refused())? * size)
}
