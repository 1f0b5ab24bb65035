use duration::{parse, DurationError};

#[test]
fn one_unit() {
    assert_eq!(parse("45s"), Ok(45));
    assert_eq!(parse("2m"), Ok(120));
    assert_eq!(parse("1h"), Ok(3600));
}

#[test]
fn hours_and_minutes() {
    assert_eq!(parse("1h30m"), Ok(5400));
}

#[test]
fn days_and_hours() {
    assert_eq!(parse("1d2h"), Ok(93600));
}

#[test]
fn recorded() {
    let cases = include_str!("data/cases.txt");
    for case in cases.lines() {
        let (text, seconds) = case.split_once(' ').unwrap();
        assert_eq!(parse(text), Ok(seconds.parse().unwrap()), "{text}");
    }
}

#[test]
fn nonsense_is_refused() {
    for text in ["", "h", "abc", "-1s"] {
        assert_eq!(parse(text), Err(DurationError(format!("{text:?} is no duration"))));
    }
}
