//! What the edit tools may write. It spares the agent a lost task; the verdict's fence looks at everything again.

use countersign_tree::{Glob, GlobError, GlobSet, TreePath, fold};

use super::Refusal;
use super::resolve::{Resolved, shown_path};
use crate::fault::Outcome;
use crate::fence;
use crate::protocol::{BaseFile, Fault, GuardRule, WriteGuard};
use crate::segment::Segments;

/// The contract's rules for one call.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) guard: &'a WriteGuard,
    pub(crate) base: Option<KnownBase>,
}

/// One file as the base has it.
#[derive(Debug)]
pub(crate) struct KnownBase {
    path: Vec<u8>,
    /// None: the base has no such file.
    bytes: Option<Vec<u8>>,
}

impl KnownBase {
    /// # Errors
    /// The content was not passed, or is not what its digest says.
    pub(crate) fn read(base: BaseFile, segments: &Segments<'_>) -> Outcome<Self> {
        let bytes = base.content.map(|digest| segments.read(&digest)).transpose();
        let bytes = bytes.map_err(|e| Fault::io(format!("reading the base's `{}`", base.path), &e))?;
        Ok(Self { path: base.path.as_bytes().to_vec(), bytes })
    }
}

impl Rules<'_> {
    /// Whether a path may be written at all, before its content is looked at.
    pub(super) fn check_place(&self, path: &[u8]) -> Result<(), Refusal> {
        let globs = |list: &[String]| {
            GlobSet::new(list).map_err(|e| Refusal::Error(format!("the contract's rules are broken: {e}")))
        };
        let name = shown_path(path);
        let scope = globs(&self.guard.scope)?;
        let allowed = match self.guard.scope.as_slice() {
            [] => "everything that is not protected".to_owned(),
            list => list.iter().map(|g| format!("`{g}`")).collect::<Vec<_>>().join(", "),
        };
        if let Some((rule, how)) = self.protecting(path)? {
            return Err(Refusal::Refused(format!(
                "`{name}` is protected by the rule {} ({}{how}) and was not changed. You may edit {allowed}. Make the \
                 change in the product code instead",
                rule.rule, rule.why
            )));
        }
        if !scope.is_empty() && !scope.matches(path) {
            return Err(Refusal::Refused(format!(
                "`{name}` is outside the scope of this task and was not changed. You may edit {allowed}"
            )));
        }
        Ok(())
    }

    /// The rule that protects a path, under its own name or under the name that a file system that folds names would
    /// hold it by. Of each spelling the first rule decides, and the contract may allow to break it.
    fn protecting(&self, path: &[u8]) -> Result<Option<(&GuardRule, &'static str)>, Refusal> {
        let broken = |e: GlobError| Refusal::Error(format!("the contract's rules are broken: {e}"));
        let folded = TreePath::new(path).map(|path| path.folded()).unwrap_or_default();
        let alias = "; on a file system that folds names this would be the same";
        let spellings = [(path, false), (folded.as_slice(), true)];
        for (spelling, is_alias) in
            spellings.into_iter().filter(|(text, is_alias)| !is_alias || *text != path)
        {
            for rule in &self.guard.protect {
                let matches = if is_alias {
                    let folded = rule.globs.iter().filter_map(|glob| Glob::new(&fold(glob)).ok());
                    folded.into_iter().any(|glob| glob.matches(spelling))
                } else {
                    GlobSet::new(&rule.globs).map_err(broken)?.matches(spelling)
                };
                if matches {
                    if self.guard.allow.iter().any(|one| one.allows(&rule.rule, path)) {
                        return Ok(None);
                    }
                    return Ok(Some((rule, if is_alias { alias } else { "" })));
                }
            }
        }
        Ok(None)
    }

    /// Whether a change leaves the file's protected items alone. `disk` is None when the file is not there.
    ///
    /// A change is refused when it is one against the base *and* against the file on disk. Against the base alone,
    /// one file says too little: code that moved here from another file would look new for ever. Against the disk
    /// alone, the agent could never correct a test that it added itself.
    pub(super) fn check_change(
        &self,
        found: &Resolved,
        disk: Option<&[u8]>,
        after: &[u8],
    ) -> Result<(), Refusal> {
        let base = self.base.as_ref().filter(|base| base.path == found.path);
        // A file that neither the base nor the disk has is the agent's own.
        if disk.is_none() && base.is_none_or(|base| base.bytes.is_none()) {
            return Ok(());
        }
        for rule in &self.guard.fence {
            let glob = Glob::new(&rule.glob)
                .map_err(|e| Refusal::Error(format!("the contract's rules are broken: {e}")))?;
            if !glob.matches(&found.path) {
                continue;
            }
            let against = |before: &[u8]| fence::guard(rule, &found.path, before, after, &self.guard.allow);
            let Some(reason) = disk.or_else(|| base?.bytes.as_deref()).and_then(against) else { continue };
            let reason = match base {
                None => reason,
                Some(base) => match against(base.bytes.as_deref().unwrap_or_default()) {
                    Some(reason) => reason,
                    None => continue,
                },
            };
            let name = shown_path(&found.path);
            let hint = if base.is_none() && found.through_link {
                format!(". If you added them yourself, name the file without a link: `{name}`")
            } else {
                String::new()
            };
            return Err(Refusal::Refused(format!(
                "`{name}` was not changed: {reason}. Leave those parts as they are and edit the rest of the file{hint}"
            )));
        }
        Ok(())
    }
}
