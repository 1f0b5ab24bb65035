//! Mutants: a changed file with one small fault more, to see whether the check notices. By rules over tokens, only in lines that the
//! change brought, never in tests, comments or strings.

mod code;
mod kinds;

use std::collections::BTreeMap;
use std::fs::File;

use countersign_types::Digest;

use crate::fault::Outcome;
use crate::mutate::kinds::{Edit, Source, brackets};
use crate::protocol::{Fault, Located, Mutant, MutantLanguage as Language, MutateFile, Reply};
use crate::segment::{SegmentWriter, Segments};

/// Bytes of a source that is looked at.
const MAX_SOURCE: u64 = 1 << 20;

/// Mutants of one request.
const MOST: u32 = 100;

/// Makes at most `most` mutants, spread evenly over everything that could be changed. Their contents go to the first file.
pub(crate) fn mutants(files: &[MutateFile], most: u32, located: &[Located], fds: &[File]) -> Outcome<Reply> {
    let Some((out, inputs)) = fds.split_first() else {
        return Err(Fault::bad_request("mutants need a file to write to"));
    };
    let read = |e: std::io::Error| Fault::io("a changed source", &e);
    let write = |e: std::io::Error| Fault::io("a mutant", &e);
    let segments = Segments::new(inputs, located);
    let mut all: Vec<(&MutateFile, Vec<u8>, Edit)> = Vec::new();
    for file in files {
        if segments.len(&file.after).map_err(read)? > MAX_SOURCE {
            continue;
        }
        let after = segments.read(&file.after).map_err(read)?;
        let before = match &file.before {
            Some(before) if segments.len(before).map_err(read)? <= MAX_SOURCE => {
                segments.read(before).map_err(read)?
            }
            _ => Vec::new(),
        };
        all.extend(edits(&before, &after, file.language).into_iter().map(|edit| (file, after.clone(), edit)));
    }
    let mut writer = SegmentWriter::new(out);
    let mut mutants = Vec::new();
    for (file, text, edit) in spread(all, most.min(MOST)) {
        let line = 1 + text[..edit.from].iter().filter(|byte| **byte == b'\n').count();
        let mut content = text;
        content.splice(edit.from..edit.to, edit.new);
        let digest = Digest::of(&content);
        writer.append(digest, &content).map_err(write)?;
        mutants.push(Mutant {
            path: file.path.clone(),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            kind: edit.kind,
            content: digest,
            size: content.len() as u64,
        });
    }
    Ok(Reply::Mutants { mutants, located: writer.finish().map_err(write)? })
}

/// Evenly chosen, in order.
fn spread<T>(all: Vec<T>, most: u32) -> Vec<T> {
    let (count, most) = (all.len(), most as usize);
    if count <= most {
        return all;
    }
    let chosen: std::collections::BTreeSet<usize> = (0..most).map(|index| index * count / most).collect();
    all.into_iter().enumerate().filter(|(index, _)| chosen.contains(index)).map(|(_, one)| one).collect()
}

/// Everything that can be changed in the lines of `after` that `before` does not have.
fn edits(before: &[u8], after: &[u8], language: Language) -> Vec<Edit> {
    if std::str::from_utf8(after).is_err() {
        return Vec::new();
    }
    let mut known: BTreeMap<&[u8], usize> = BTreeMap::new();
    for line in before.split(|byte| *byte == b'\n') {
        *known.entry(line.trim_ascii()).or_default() += 1;
    }
    let code = code::code(after, language);
    let source = Source { text: after, code: &code, language };
    let mut edits = Vec::new();
    let (mut from, mut open) = (0, 0_i64);
    for line in after.split(|byte| *byte == b'\n') {
        let to = from + line.len();
        // Tests inside a Rust source stand at its end.
        if language == Language::Rust && line.trim_ascii().starts_with(b"#[cfg(test)]") {
            break;
        }
        match known.get_mut(line.trim_ascii()).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => edits.extend(source.edits(from, to, open)),
        }
        let in_code = (from..to).filter(|at| code[*at]).map(|at| after[at]);
        open = (open + brackets(in_code)).max(0);
        from = to + 1;
    }
    edits
}

#[cfg(test)]
mod tests;
