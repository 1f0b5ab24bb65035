//! Contents of a bundle that was verified, for whoever works on with them.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::Files;
use super::{Report, sums};
use crate::layout::{Part, SUMS, max_size, part};

/// Why a part of a verified bundle was not given.
#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    #[error("the bundle is not intact")]
    NotIntact,
    #[error("the bundle cannot be listed: {0}")]
    Io(#[from] std::io::Error),
    /// Something in the directory is not what was verified a moment ago.
    #[error("`{0}` is not what was verified: the bundle was changed since")]
    Changed(String),
}

/// The named parts of the bundle that `report` is about, each held against the list that was verified; a bundle that was
/// changed in between is told. Parts that the bundle does not have are left out.
pub fn contents(
    dir: &Path,
    report: &Report,
    paths: &[&str],
) -> Result<BTreeMap<String, Vec<u8>>, ContentsError> {
    let changed = |path: &str| ContentsError::Changed(path.to_owned());
    if !report.intact() {
        return Err(ContentsError::NotIntact);
    }
    let files = Files::list(dir, &mut Vec::new())?.ok_or_else(|| changed(SUMS))?;
    let mut buffer = Vec::new();
    let mut read = |path: &str, role: &Part| {
        let fits = files.sizes.get(path).is_some_and(|size| *size <= max_size(role).as_u64());
        if !fits {
            return Err(changed(path));
        }
        files.read(path, &mut buffer).map_err(|_| changed(path))
    };
    let (list, digest) = read(SUMS, &Part::Sums)?;
    if report.digest != Some(digest) {
        return Err(changed(SUMS));
    }
    let list = sums::read(&list).map_err(|_| changed(SUMS))?;
    let mut out = BTreeMap::new();
    for path in paths {
        let Some(wanted) = list.get(*path) else { continue };
        let role = part(path, report.unsigned.is_none()).ok_or_else(|| changed(path))?;
        let (bytes, digest) = read(path, &role)?;
        if digest != *wanted {
            return Err(changed(path));
        }
        out.insert((*path).to_owned(), bytes);
    }
    Ok(out)
}
