//! Where two JSON values part.

use serde_json::Value;

use crate::error::printable;

/// Bytes of a value that a message shows.
const MAX_SHOWN: usize = 120;

/// The first place, in the order of `was`, where two values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// A JSON pointer (RFC 6901); empty for the whole.
    pub(super) pointer: String,
    /// Both values, cut and safe to print. None: there is none at this place.
    pub(super) was: Option<String>,
    pub(super) is: Option<String>,
}

/// Texts are the same that `same` says are.
pub(super) fn first_difference(was: &Value, is: &Value, same: &Same<'_>) -> Option<Difference> {
    let mut pointer = String::new();
    let (was, is) = walk(Some(was), Some(is), &mut pointer, same)?;
    let (was, is) = shown(was, is);
    Some(Difference { pointer, was, is })
}

pub(super) type Same<'a> = dyn Fn(&str, &str) -> bool + 'a;

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

/// Leaves `pointer` at the difference. As deep as the parser lets values nest.
fn walk<'a>(
    was: Option<&'a Value>,
    is: Option<&'a Value>,
    pointer: &mut String,
    same: &Same<'_>,
) -> Option<Pair<'a>> {
    let here = pointer.len();
    match (was, is) {
        (Some(Value::Object(was)), Some(Value::Object(is))) => {
            let added = is.keys().filter(|key| !was.contains_key(*key));
            for key in was.keys().chain(added) {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                if let Some(found) = walk(was.get(key), is.get(key), pointer, same) {
                    return Some(found);
                }
                pointer.truncate(here);
            }
            None
        }
        (Some(Value::Array(was)), Some(Value::Array(is))) => {
            for index in 0..was.len().max(is.len()) {
                pointer.push_str(&format!("/{index}"));
                if let Some(found) = walk(was.get(index), is.get(index), pointer, same) {
                    return Some(found);
                }
                pointer.truncate(here);
            }
            None
        }
        (was, is) if was == is => None,
        (Some(Value::String(was)), Some(Value::String(is))) if same(was, is) => None,
        pair => Some(pair),
    }
}

/// Long texts are shown from where they part, a little before it.
fn shown(was: Option<&Value>, is: Option<&Value>) -> (Option<String>, Option<String>) {
    const BEFORE: usize = 20;
    if let (Some(Value::String(was)), Some(Value::String(is))) = (was, is) {
        let same = was.chars().zip(is.chars()).take_while(|(was, is)| was == is).count();
        let skip = same.saturating_sub(BEFORE);
        let cut = |text: &str| {
            let lead = if skip > 0 { "…" } else { "" };
            format!("\"{lead}{}\"", printable(&text.chars().skip(skip).collect::<String>(), MAX_SHOWN))
        };
        return (Some(cut(was)), Some(cut(is)));
    }
    let show = |value: &Value| printable(&value.to_string(), MAX_SHOWN);
    (was.map(show), is.map(show))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(was: &Value, is: &Value) -> Option<Difference> {
        first_difference(was, is, &|was, is| was == is)
    }

    #[test]
    fn texts_that_are_called_the_same_do_not_differ() {
        let same = |was: &str, is: &str| was.trim() == is.trim();
        assert_eq!(first_difference(&json!(["a ", 1]), &json!([" a", 1]), &same), None);
        let found = first_difference(&json!(["a ", "b"]), &json!([" a", "c"]), &same).unwrap();
        assert_eq!(found.pointer, "/1");
    }

    #[test]
    fn the_first_difference_is_named_by_its_pointer() {
        let base = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "a/b~c": 1});
        assert_eq!(first(&base, &base.clone()), None);
        for (path, value, pointer) in [
            ("/model", json!("n"), "/model"),
            ("/messages/0/content", json!("ho"), "/messages/0/content"),
            ("/messages/0/content", json!(null), "/messages/0/content"),
            ("/messages/0", json!([]), "/messages/0"),
            ("/a~1b~0c", json!(2), "/a~1b~0c"),
        ] {
            let mut changed = base.clone();
            *changed.pointer_mut(path).unwrap() = value;
            assert_eq!(first(&base, &changed).unwrap().pointer, pointer);
        }
        let mut more = base.clone();
        more["messages"].as_array_mut().unwrap().push(json!(1));
        let added = first(&base, &more).unwrap();
        assert_eq!((added.pointer.as_str(), added.was, added.is), ("/messages/1", None, Some("1".into())));
        assert_eq!(first(&more, &base).unwrap().is, None);
        assert_eq!(first(&json!(1), &json!(2)).unwrap().pointer, "");
    }

    #[test]
    fn long_texts_are_shown_where_they_part() {
        let long = |end: &str| json!(format!("{}{end}", "x".repeat(5000)));
        let found = first(&long("one"), &long("two\u{1b}[2J")).unwrap();
        assert!(found.was.unwrap().ends_with("xxxone\""));
        let is = found.is.unwrap();
        assert!(is.contains("xxxtwo") && !is.contains('\u{1b}') && is.len() < 200, "{is}");
    }
}
