//! Registered profiles: copies below the home that are named by their digest. Nothing of the home is ever mounted in a cell.
//!
//! `profiles/NAME/DIGEST/` holds the files of one; `profiles/NAME/current` names the one that was registered last.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use countersign_engine::Profiles;
use countersign_gates::profile::{Profile, ProfileFiles, ProfileTerms};
use countersign_kernel::contract::ProfileRef;
use countersign_tree::{EntryMode, TreePath};
use countersign_types::Digest;

use crate::files;

/// Directories inside one another.
const MAX_DEPTH: usize = 32;
/// Letters of a digest that name a registered profile at the least.
const LEAST_PREFIX: usize = 8;

/// The registered profiles of a home.
#[derive(Clone, Debug)]
pub(crate) struct ProfileStore {
    root: PathBuf,
}

/// One registered profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) profile: ProfileRef,
    /// The one that its name alone stands for.
    pub(crate) current: bool,
}

impl ProfileStore {
    pub(crate) fn new(home: &Path) -> Self {
        Self { root: home.join("profiles") }
    }

    /// Keeps a copy, whole or not at all. The same files give the same digest and change nothing.
    pub(crate) fn register(&self, files: &ProfileFiles, name: &str) -> Result<Digest, String> {
        let digest = files.digest();
        let dir = self.root.join(name);
        let write = || -> std::io::Result<()> {
            private_dirs(&dir)?;
            let place = dir.join(digest.hex());
            if read_dir(&place).is_ok_and(|there| there.digest() == digest) {
                return self.set_current(name, &digest);
            }
            let new = tempfile::Builder::new().prefix(".new-").tempdir_in(&dir)?;
            for (path, mode, bytes) in files.iter() {
                write_file(new.path(), path, mode, bytes)?;
            }
            sync_dirs(new.path())?;
            // A copy that was changed is no copy.
            if files::exists(&place) {
                let damaged = tempfile::Builder::new().prefix(".damaged-").tempdir_in(&dir)?;
                fs::rename(&place, damaged.path().join("copy"))?;
            }
            fs::rename(new.keep(), &place)?;
            fs::File::open(&dir)?.sync_all()?;
            self.set_current(name, &digest)
        };
        write().map_err(|error| format!("the profile cannot be kept in {}: {error}", dir.display()))?;
        Ok(digest)
    }

    fn set_current(&self, name: &str, digest: &Digest) -> std::io::Result<()> {
        let dir = self.root.join(name);
        let mut file = tempfile::NamedTempFile::new_in(&dir)?;
        file.write_all(format!("{}\n", digest.hex()).as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(dir.join("current")).map_err(|error| error.error)?;
        fs::File::open(&dir)?.sync_all()
    }

    fn current(&self, name: &str) -> Option<Digest> {
        let bytes = files::read_regular(&self.root.join(name).join("current"), 200).ok()?;
        Digest::from_hex(std::str::from_utf8(&bytes).ok()?.trim()).ok()
    }

    /// Every registered profile, by name; of one name the current one first.
    pub(crate) fn list(&self) -> Result<Vec<Registered>, String> {
        let names = match fs::read_dir(&self.root) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("{}: {error}", self.root.display())),
        };
        let mut all = Vec::new();
        for entry in names {
            let entry = entry.map_err(|error| format!("{}: {error}", self.root.display()))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if ProfileTerms::is_name(&name) {
                all.extend(self.of(&name)?);
            }
        }
        all.sort_by(|a, b| {
            let key = |r: &Registered| (r.profile.name.clone(), !r.current, r.profile.digest);
            key(a).cmp(&key(b))
        });
        Ok(all)
    }

    fn of(&self, name: &str) -> Result<Vec<Registered>, String> {
        let dir = self.root.join(name);
        let current = self.current(name);
        let entries = fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let digests = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Digest::from_hex(&name).ok()
        });
        Ok(digests
            .map(|digest| Registered {
                profile: ProfileRef { name: name.to_owned(), digest },
                current: current == Some(digest),
            })
            .collect())
    }

    /// What `NAME` or `NAME@DIGEST` names; of a digest, the first eight letters or more.
    pub(crate) fn find(&self, text: &str) -> Result<ProfileRef, String> {
        let (name, wanted) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.strip_prefix("sha256:").unwrap_or(digest))),
            None => (text, None),
        };
        if !ProfileTerms::is_name(name) {
            return Err(format!(
                "`{}` is no profile's name: lower-case letters, digits, `.`, `_` and `-`",
                crate::text::one_line(name, crate::text::LINE)
            ));
        }
        let dir = self.root.join(name);
        let known = if files::exists(&dir) { self.of(name)? } else { Vec::new() };
        if known.is_empty() {
            return Err(format!(
                "no profile `{name}` is registered: `countersign profile register DIR` does it, `countersign profile \
                 list` shows those that are"
            ));
        }
        let Some(wanted) = wanted else {
            return known.into_iter().find(|one| one.current).map(|one| one.profile).ok_or_else(|| {
                format!("nothing says which `{name}` is the current one: register it again, or name a digest")
            });
        };
        if wanted.len() < LEAST_PREFIX || !wanted.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("a digest has at least {LEAST_PREFIX} hexadecimal digits: `{name}@…`"));
        }
        let wanted = wanted.to_ascii_lowercase();
        let mut fits = known.into_iter().filter(|one| one.profile.digest.hex().starts_with(&wanted));
        match (fits.next(), fits.next()) {
            (Some(one), None) => Ok(one.profile),
            (None, _) => Err(format!("no registered `{name}` has a digest that begins with {wanted}")),
            _ => Err(format!(
                "several registered `{name}` have digests that begin with {wanted}: write more of it"
            )),
        }
    }

    /// Reads a registered profile, as it has to be.
    pub(crate) fn profile(&self, pinned: &ProfileRef) -> Result<Profile, String> {
        let files = self.read(pinned)?;
        if files.digest() != pinned.digest {
            return Err(format!(
                "the registered copy of {}@{} was changed: its files are now {}; find out who did it, then register the \
                 profile again",
                pinned.name,
                pinned.digest,
                files.digest()
            ));
        }
        Profile::read(&files).map_err(|error| error.to_string())
    }
}

impl Profiles for ProfileStore {
    fn read(&self, profile: &ProfileRef) -> Result<ProfileFiles, String> {
        read_dir(&self.root.join(&profile.name).join(profile.digest.hex()))
    }
}

/// Every file below a directory: plain files only, bounded, nothing waited for.
pub(crate) fn read_dir(root: &Path) -> Result<ProfileFiles, String> {
    let mut found = ProfileFiles::default();
    let mut left = ProfileFiles::MAX_BYTES;
    let mut open = vec![(root.to_owned(), 0_usize)];
    while let Some((dir, depth)) = open.pop() {
        let shown = |path: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        if depth > MAX_DEPTH {
            return Err(shown(&dir, &format!("more than {MAX_DEPTH} directories inside one another")));
        }
        for entry in fs::read_dir(&dir).map_err(|error| shown(&dir, &error))? {
            let path = entry.map_err(|error| shown(&dir, &error))?.path();
            let metadata = path.symlink_metadata().map_err(|error| shown(&path, &error))?;
            if metadata.is_dir() {
                open.push((path, depth + 1));
                continue;
            }
            if !metadata.is_file() {
                return Err(shown(&path, &"a profile holds plain files and directories only"));
            }
            let below = path.strip_prefix(root).map_err(|error| shown(&path, &error))?;
            let below = below.to_str().ok_or_else(|| shown(&path, &"its name is not UTF-8"))?;
            let name = TreePath::new(below).map_err(|error| shown(&path, &error))?;
            let bytes = files::read_regular(&path, left).map_err(|what| {
                shown(&path, &format!("{what} (a profile holds {} bytes at most)", ProfileFiles::MAX_BYTES))
            })?;
            left -= bytes.len() as u64;
            let executable = metadata.permissions().mode() & 0o111 != 0;
            let mode = if executable { EntryMode::Executable } else { EntryMode::File };
            found.add(name, mode, bytes).map_err(|error| shown(root, &error))?;
        }
    }
    Ok(found)
}

fn private_dirs(dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn write_file(root: &Path, path: &TreePath, mode: EntryMode, bytes: &[u8]) -> std::io::Result<()> {
    let target = root.join(path.to_string());
    if let Some(parent) = target.parent() {
        private_dirs(parent)?;
    }
    let mode = if mode == EntryMode::Executable { 0o500 } else { 0o400 };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&target)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dirs(root: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_dirs(&path)?;
        }
    }
    fs::File::open(root)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dir: &Path, check: &str) -> PathBuf {
        let text = serde_json::json!({
            "schema": "countersign.profile/1", "name": "sample", "checks": [{ "argv": [check] }],
        });
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("profile.json"), text.to_string()).unwrap();
        dir.to_owned()
    }

    #[test]
    fn registering_twice_gives_one_digest_and_the_last_is_current() {
        let temp = tempfile::tempdir().unwrap();
        let store = ProfileStore::new(&temp.path().join("home"));
        let put = |check: &str| {
            let files = read_dir(&sample(&temp.path().join(check), check)).unwrap();
            store.register(&files, "sample").unwrap()
        };
        let (one, two) = (put("one"), put("two"));
        assert_ne!(one, two);
        assert_eq!(store.find("sample").unwrap().digest, two);
        assert_eq!(put("one"), one);
        assert_eq!(store.find("sample").unwrap().digest, one);
        assert_eq!(store.find(&format!("sample@{}", &two.hex()[..8])).unwrap().digest, two);
        assert_eq!(store.find(&format!("sample@{two}")).unwrap().digest, two);
        let all = store.list().unwrap();
        assert_eq!(
            all.iter().map(|r| (r.profile.digest, r.current)).collect::<Vec<_>>(),
            [(one, true), (two, false)]
        );
        for wrong in ["sample@", "sample@12", "sample@zzzzzzzz", "sample@00000000", "none", "../x", "", "A"] {
            assert!(store.find(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_changed_byte_is_no_longer_the_profile_and_registering_heals_it() {
        let temp = tempfile::tempdir().unwrap();
        let store = ProfileStore::new(temp.path());
        let files = read_dir(&sample(&temp.path().join("p"), "one")).unwrap();
        store.register(&files, "sample").unwrap();
        let pinned = store.find("sample").unwrap();
        let copy = store.root.join("sample").join(pinned.digest.hex()).join("profile.json");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
        let text = fs::read_to_string(&copy).unwrap();
        fs::write(&copy, text.replace("one", "two")).unwrap();
        assert!(store.profile(&pinned).unwrap_err().contains("was changed"));
        store.register(&files, "sample").unwrap();
        assert_eq!(store.profile(&pinned).unwrap().checks[0].argv, ["one"]);
        assert!(store.list().unwrap().len() == 1);
    }

    #[test]
    fn what_is_no_plain_file_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = sample(&temp.path().join("p"), "one");
        std::os::unix::fs::symlink("profile.json", dir.join("link")).unwrap();
        assert!(read_dir(&dir).unwrap_err().contains("plain files"));
        fs::remove_file(dir.join("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, dir.join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert!(read_dir(&dir).is_err());
        fs::remove_file(dir.join("fifo")).unwrap();
        use std::os::unix::ffi::OsStrExt as _;
        fs::write(dir.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        assert!(read_dir(&dir).unwrap_err().contains("UTF-8"));
    }
}
