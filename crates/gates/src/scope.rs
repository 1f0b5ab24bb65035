use countersign_tree::{Change, GlobError, GlobSet, TreePath};

/// Where the agent may write: the contract's `--scope` globs. None named: everywhere (protection is the fence's).
#[derive(Debug)]
pub struct Scope {
    allowed: Option<GlobSet>,
}

impl Scope {
    /// Refuses a pattern that is not a glob of the contract's language.
    pub fn new(globs: &[String]) -> Result<Self, GlobError> {
        let allowed = if globs.is_empty() { None } else { Some(GlobSet::new(globs)?) };
        Ok(Self { allowed })
    }

    #[must_use]
    pub fn allows(&self, path: &TreePath) -> bool {
        self.allowed.as_ref().is_none_or(|set| set.matches(path.as_bytes()))
    }

    /// The changed paths outside the scope, in path order. A deletion and a mode change count like a write.
    #[must_use]
    pub fn violations(&self, changes: &[Change]) -> Vec<TreePath> {
        changes.iter().filter(|c| !self.allows(&c.path)).map(|c| c.path.clone()).collect()
    }
}

/// [`Scope::violations`] for one use.
pub fn scope_violations(changes: &[Change], scope: &[String]) -> Result<Vec<TreePath>, GlobError> {
    Ok(Scope::new(scope)?.violations(changes))
}
