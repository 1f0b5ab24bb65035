//! Where the base comes from, found without running git and without reading more than pointers: the objects are read
//! by git inside a cell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use countersign_engine::Sources;
use countersign_kernel::contract::Source;
use countersign_types::Reason;

use crate::files;
use crate::refusal::Refusal;

/// The longest `.git` file, `commondir` file or `HEAD`, in bytes.
const MAX_POINTER: u64 = 8 * 1024;

/// The longest revision, in bytes.
const MAX_REV: usize = 1024;

/// The base's place: for the contract, and for the cells that mount it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) source: Source,
    pub(crate) sources: Sources,
    /// Everything of the user's that cells may be shown, and the work tree, which may be shown to the next run.
    project: Vec<PathBuf>,
}

impl Place {
    /// The user's own directories whose files are taken as they are; none where a commit is.
    pub(super) fn taken_as_it_is(&self) -> &[PathBuf] {
        match &self.source {
            Source::Git { include_dirty: false, .. } => &[],
            Source::Git { .. } | Source::Directory { .. } => &self.project,
        }
    }

    /// Cells are shown this directory of the user's too.
    pub(super) fn also(&mut self, dir: PathBuf) {
        self.project.push(dir);
    }
}

/// A git repository on disk.
#[derive(Debug)]
struct Found {
    /// What `git rev-parse --git-common-dir` would name.
    common: PathBuf,
    /// What `git rev-parse --git-dir` would name; differs in a linked work tree.
    private: PathBuf,
    /// None: bare.
    work_tree: Option<PathBuf>,
}

pub(crate) fn find(repo: Option<&Path>, base: Option<&str>, include_dirty: bool) -> Result<Place, Refusal> {
    let rev = check_rev("--base", base)?;
    let dir = directory(repo, "--repo takes the project's directory")?;
    let refuse = |what: String| {
        Refusal::new(Reason::Repository, format!("the repository {} is of no use: {what}", dir.display()))
    };
    let Some(found) = discover(&dir).map_err(refuse)? else {
        return plain(dir, base, include_dirty);
    };
    if include_dirty && found.work_tree.is_none() {
        return Err(Refusal::usage(
            "--include-dirty cannot be used with a bare repository: it has no work tree",
        ));
    }
    readable(&found).map_err(refuse)?;
    let rev = anchored(&found, rev).map_err(refuse)?;
    let repository = escape(found.work_tree.as_deref().unwrap_or(&found.common));
    let work_tree = if include_dirty { found.work_tree.clone() } else { None };
    let mut project = vec![found.common.clone()];
    project.extend(found.work_tree);
    Ok(Place {
        source: Source::Git { repository, rev, include_dirty },
        sources: Sources::Git { git_dir: found.common, work_tree },
        project,
    })
}

/// The absolute path that was meant, without a look at it: a run may be refused before its project is opened.
pub(super) fn meant(repo: Option<&Path>) -> Option<String> {
    std::path::absolute(repo.unwrap_or(Path::new("."))).ok().map(|path| escape(&path))
}

/// The directory that holds the project, as an absolute path that cells can be told of.
fn directory(repo: Option<&Path>, advice: &str) -> Result<PathBuf, Refusal> {
    let dir = match repo {
        Some(dir) => dir.to_owned(),
        None => std::env::current_dir().map_err(|error| {
            Refusal::new(Reason::Repository, format!("the current directory is gone: {error}"))
        })?,
    };
    readable_dir(&dir, advice).map_err(|what| {
        Refusal::new(Reason::Repository, format!("the repository {} is of no use: {what}", dir.display()))
    })
}

/// The absolute path of a directory that can be read and that cells can be told of.
pub(super) fn readable_dir(dir: &Path, advice: &str) -> Result<PathBuf, String> {
    let dir = std::fs::canonicalize(dir).map_err(|error| error.to_string())?;
    if !dir.is_dir() {
        return Err(format!("it is not a directory; {advice}"));
    }
    std::fs::read_dir(&dir).map_err(|error| format!("it cannot be read: {error}"))?;
    if dir.to_str().is_none() {
        return Err("its path is not UTF-8, and cells cannot be told of it: move or rename it".to_owned());
    }
    Ok(dir)
}

/// A revision of the same repository, as its git directory knows it.
pub(super) fn head(repo: Option<&Path>, rev: &str) -> Result<String, Refusal> {
    let rev = check_rev("--head", Some(rev))?;
    let dir = directory(repo, "--repo takes the project's directory")?;
    let refuse = |what: String| {
        Refusal::new(Reason::Repository, format!("the repository {} is of no use: {what}", dir.display()))
    };
    match discover(&dir).map_err(refuse)? {
        Some(found) => anchored(&found, rev).map_err(refuse),
        None => Err(Refusal::usage(format!(
            "--head {rev} names a commit, but {} is in no git repository: judge a directory with --tree or a patch \
             with --patch",
            dir.display()
        ))),
    }
}

/// The same place again, for a session that goes on.
pub(crate) fn again(source: &Source) -> Result<Sources, Refusal> {
    let path = |text: &str| {
        unescape(text)
            .ok_or_else(|| Refusal::new(Reason::Repository, "the recorded path of the repository is damaged"))
    };
    match source {
        Source::Directory { path: text } => Ok(Sources::Directory(path(text)?)),
        Source::Git { repository, include_dirty, .. } => {
            Ok(find(Some(&path(repository)?), None, *include_dirty)?.sources)
        }
    }
}

/// The work tree that a patch of this source belongs to.
pub(crate) fn work_tree(source: &Source) -> Option<PathBuf> {
    match source {
        Source::Directory { path } => unescape(path),
        Source::Git { repository, .. } => unescape(repository),
    }
}

/// What a directory belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Root {
    WorkTree(PathBuf),
    Bare,
    Plain,
}

/// The work tree that `dir`, absolute, lies in.
pub(crate) fn root_of(dir: &Path) -> Result<Root, String> {
    Ok(match discover(dir)? {
        Some(Found { work_tree: Some(root), .. }) => Root::WorkTree(root),
        Some(_) => Root::Bare,
        None => Root::Plain,
    })
}

/// Cells are shown the repository; the home, where every session's record lies, must not be in it, nor it in the home.
pub(super) fn apart(place: &Place, home: &Path) -> Result<(), Refusal> {
    for part in &place.project {
        if home.starts_with(part) || part.starts_with(home) {
            return Err(Refusal::new(
                Reason::Config,
                format!(
                    "the home {} and the project {} lie inside one another: set COUNTERSIGN_HOME to a directory elsewhere",
                    home.display(),
                    part.display()
                ),
            ));
        }
    }
    Ok(())
}

fn plain(dir: PathBuf, base: Option<&str>, include_dirty: bool) -> Result<Place, Refusal> {
    if let Some(base) = base {
        return Err(Refusal::usage(format!(
            "--base {base} names a commit, but {} is in no git repository: leave --base out to start from its files",
            dir.display()
        )));
    }
    if include_dirty {
        return Err(Refusal::usage(format!(
            "--include-dirty is for git repositories, and {} is in none: its files are taken as they are",
            dir.display()
        )));
    }
    Ok(Place {
        source: Source::Directory { path: escape(&dir) },
        project: vec![dir.clone()],
        sources: Sources::Directory(dir),
    })
}

pub(crate) fn check_rev<'a>(flag: &str, base: Option<&'a str>) -> Result<&'a str, Refusal> {
    let rev = base.unwrap_or("HEAD");
    let bad = rev.trim().is_empty()
        || rev.len() > MAX_REV
        || rev.starts_with('-')
        || rev.chars().any(|c| c.is_control() || c.is_whitespace());
    if bad {
        return Err(Refusal::usage(format!(
            "{flag} `{}` names no commit: give a branch, a tag or a commit id",
            crate::text::one_line(rev, crate::text::LINE)
        )));
    }
    Ok(rev)
}

/// The repository that `dir` is in, as git finds it: the nearest `.git`, or a bare repository.
fn discover(dir: &Path) -> Result<Option<Found>, String> {
    for ancestor in dir.ancestors() {
        let dot_git = ancestor.join(".git");
        match std::fs::symlink_metadata(&dot_git) {
            Ok(metadata) if metadata.is_symlink() || metadata.is_dir() => {
                let private = std::fs::canonicalize(&dot_git)
                    .map_err(|error| format!("{}: {error}", dot_git.display()))?;
                // Git goes on upwards from a directory that only has the name.
                if looks_bare(&private) {
                    return with_common(private, Some(ancestor.to_owned())).map(Some);
                }
            }
            Ok(metadata) if metadata.is_file() => {
                let target = pointer(&dot_git, "gitdir: ")?;
                let private = std::fs::canonicalize(ancestor.join(&target)).map_err(|error| {
                    format!("{} points to {}: {error}", dot_git.display(), target.display())
                })?;
                return with_common(private, Some(ancestor.to_owned())).map(Some);
            }
            Ok(_) => return Err(format!("{} is neither a directory nor a file", dot_git.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", dot_git.display())),
        }
        if looks_bare(ancestor) {
            return with_common(ancestor.to_owned(), None).map(Some);
        }
    }
    Ok(None)
}

/// What git asks of a directory before it takes it for a repository.
fn looks_bare(dir: &Path) -> bool {
    let linked = files::exists(&dir.join("commondir"));
    files::exists(&dir.join("HEAD"))
        && (linked || (dir.join("objects").is_dir() && dir.join("refs").is_dir()))
}

fn with_common(private: PathBuf, work_tree: Option<PathBuf>) -> Result<Found, String> {
    let file = private.join("commondir");
    let common = if files::exists(&file) {
        let target = private.join(pointer(&file, "")?);
        std::fs::canonicalize(&target)
            .map_err(|error| format!("{} points to {}: {error}", file.display(), target.display()))?
    } else {
        private.clone()
    };
    Ok(Found { common, private, work_tree })
}

/// The path in a small file of one line.
fn pointer(file: &Path, prefix: &str) -> Result<PathBuf, String> {
    let bytes =
        files::read_regular(file, MAX_POINTER).map_err(|what| format!("{}: {what}", file.display()))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.strip_prefix(prefix.as_bytes()) {
        Some(path) if !path.is_empty() && !path.contains(&0) && !path.contains(&b'\n') => {
            Ok(PathBuf::from(OsStr::from_bytes(path)))
        }
        _ => Err(format!("{} is no pointer to a git directory", file.display())),
    }
}

fn readable(found: &Found) -> Result<(), String> {
    for dir in [found.common.clone(), found.common.join("objects"), found.common.join("refs")] {
        std::fs::read_dir(&dir).map_err(|error| format!("{} cannot be read: {error}", dir.display()))?;
    }
    Ok(())
}

/// In a linked work tree `HEAD` is the work tree's own, which is not in the directory that cells mount.
fn anchored(found: &Found, rev: &str) -> Result<String, String> {
    let rest =
        rev.strip_prefix("HEAD").or_else(|| rev.strip_prefix('@').filter(|rest| !rest.starts_with('{')));
    let Some(rest) = rest.filter(|rest| {
        found.private != found.common && (rest.is_empty() || rest.starts_with(['~', '^', '@']))
    }) else {
        return Ok(rev.to_owned());
    };
    let file = found.private.join("HEAD");
    let bytes =
        files::read_regular(&file, MAX_POINTER).map_err(|what| format!("{}: {what}", file.display()))?;
    let head = String::from_utf8(bytes).map_err(|_| format!("{} is not text", file.display()))?;
    let head = head.trim_end();
    let head = head.strip_prefix("ref: ").unwrap_or(head);
    if head.is_empty() || head.starts_with('-') || head.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("{} names no commit", file.display()));
    }
    Ok(format!("{head}{rest}"))
}

/// A path as text: printable UTF-8 as it is, other bytes as `\xNN`, a backslash as `\\`.
pub(super) fn escape(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        out.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

pub(crate) fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                after
            }
            (b'\\', _) => return None,
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    Some(PathBuf::from(OsStr::from_bytes(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn git_dir(at: &Path) {
        for dir in ["objects", "refs"] {
            fs::create_dir_all(at.join(dir)).unwrap();
        }
        fs::write(at.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        (dir, path)
    }

    #[test]
    fn a_repository_is_found_from_below_and_a_bare_one_as_itself() {
        let (_keep, root) = temp();
        git_dir(&root.join("r/.git"));
        fs::create_dir_all(root.join("r/a/b")).unwrap();
        let place = find(Some(&root.join("r/a/b")), None, false).unwrap();
        assert!(
            matches!(&place.sources, Sources::Git { git_dir, work_tree: None } if *git_dir == root.join("r/.git"))
        );
        assert!(matches!(&place.source, Source::Git { rev, .. } if rev == "HEAD"));
        let place = find(Some(&root.join("r")), Some("v1"), true).unwrap();
        assert!(matches!(&place.sources, Sources::Git { work_tree: Some(w), .. } if *w == root.join("r")));
        git_dir(&root.join("bare.git"));
        let place = find(Some(&root.join("bare.git")), None, false).unwrap();
        assert!(matches!(&place.sources, Sources::Git { git_dir, .. } if *git_dir == root.join("bare.git")));
        assert!(find(Some(&root.join("bare.git")), None, true).is_err());
    }

    #[test]
    fn a_linked_work_tree_has_its_own_head() {
        let (_keep, root) = temp();
        git_dir(&root.join("main/.git"));
        let private = root.join("main/.git/worktrees/w");
        fs::create_dir_all(&private).unwrap();
        fs::write(private.join("HEAD"), "ref: refs/heads/side\n").unwrap();
        fs::write(private.join("commondir"), "../..\n").unwrap();
        fs::create_dir(root.join("w")).unwrap();
        fs::write(root.join("w/.git"), format!("gitdir: {}\n", private.display())).unwrap();
        let rev = |base| match find(Some(&root.join("w")), base, false).unwrap() {
            Place { source: Source::Git { rev, .. }, sources: Sources::Git { git_dir, .. }, .. } => {
                assert_eq!(git_dir, root.join("main/.git"));
                rev
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(rev(None), "refs/heads/side");
        assert_eq!(rev(Some("HEAD~2")), "refs/heads/side~2");
        assert_eq!(rev(Some("@")), "refs/heads/side");
        assert_eq!(rev(Some("@{u}")), "@{u}");
        assert_eq!(rev(Some("HEADS")), "HEADS");
        assert_eq!(rev(Some("main")), "main");
    }

    #[test]
    fn what_is_no_repository_is_said_and_never_waited_for() {
        let (_keep, root) = temp();
        let refusal = |dir: &Path, base| find(Some(dir), base, false).unwrap_err();
        assert_eq!(refusal(&root.join("none"), None).reason, Some(Reason::Repository));
        fs::write(root.join("file"), "").unwrap();
        assert_eq!(refusal(&root.join("file"), None).reason, Some(Reason::Repository));
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert_eq!(refusal(&root.join("fifo"), None).reason, Some(Reason::Repository));
        fs::create_dir(root.join("odd")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("odd/.git"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        assert_eq!(refusal(&root.join("odd"), None).reason, Some(Reason::Repository));
        for content in ["", "gitdir: ", "gitdir: /nowhere\n", "else"] {
            fs::create_dir_all(root.join("p")).unwrap();
            fs::write(root.join("p/.git"), content).unwrap();
            assert_eq!(refusal(&root.join("p"), None).reason, Some(Reason::Repository), "{content}");
        }
        fs::create_dir(root.join("plain")).unwrap();
        assert!(matches!(
            find(Some(&root.join("plain")), None, false).unwrap().sources,
            Sources::Directory(_)
        ));
        assert_eq!(refusal(&root.join("plain"), Some("HEAD")).reason, Some(Reason::Usage));
        for rev in ["", " ", "-x", "a b", "a\nb", "--upload-pack=x"] {
            assert_eq!(refusal(&root.join("plain"), Some(rev)).reason, Some(Reason::Usage), "{rev}");
        }
    }

    #[test]
    fn the_home_and_the_project_never_contain_one_another() {
        let (_keep, root) = temp();
        fs::create_dir_all(root.join("p/.home")).unwrap();
        let place = find(Some(&root.join("p")), None, false).unwrap();
        assert!(apart(&place, &root.join("p/.home")).is_err());
        assert!(apart(&place, &root).is_err());
        assert!(apart(&place, &root.join("home")).is_ok());
        git_dir(&root.join("r/.git"));
        for dirty in [false, true] {
            let place = find(Some(&root.join("r")), None, dirty).unwrap();
            assert!(apart(&place, &root.join("r/.home")).is_err(), "{dirty}");
            assert!(apart(&place, &root.join("r/.git/home")).is_err(), "{dirty}");
            assert!(apart(&place, &root.join("rest")).is_ok(), "{dirty}");
        }
    }

    #[test]
    fn odd_paths_survive_their_spelling() {
        for bytes in [&b"/a/b c"[..], b"/new\nline", b"/back\\slash\\x41", b"/\xff\xfe", "/é".as_bytes()] {
            let path = Path::new(OsStr::from_bytes(bytes));
            let text = escape(path);
            assert!(!text.contains('\n'));
            assert_eq!(unescape(&text).unwrap(), path);
        }
        assert_eq!(unescape("/a\\q"), None);
    }
}
