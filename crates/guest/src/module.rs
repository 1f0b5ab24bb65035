//! At which commit the repository of a submodule is: read from its files, without git, through no link and not beyond the
//! directory that is judged.

use crate::confined::{Root, read_all};

/// Bytes of `HEAD`, of a reference and of a `.git` file.
const MAX_WORD: u64 = 4096;
/// Bytes of `packed-refs`.
const MAX_PACKED: u64 = 4 << 20;

/// None: there is no repository, or it does not say.
pub(crate) fn commit(root: &Root, dir: &[u8]) -> Option<String> {
    let git = [dir, b"/.git"].concat();
    let git_dir = match text(root, &git, MAX_WORD) {
        Some(pointer) => below(dir, pointer.strip_prefix("gitdir:")?.trim().as_bytes())?,
        None => git,
    };
    let file = |name: &str| [&git_dir[..], b"/", name.as_bytes()].concat();
    let head = text(root, &file("HEAD"), MAX_WORD)?;
    let Some(name) = head.trim().strip_prefix("ref:") else { return id(&head) };
    let name = name.trim();
    if !name.starts_with("refs/") || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return None;
    }
    if let Some(loose) = text(root, &file(name), MAX_WORD) {
        return id(&loose);
    }
    let packed = text(root, &file("packed-refs"), MAX_PACKED)?;
    packed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' ').and_then(id))
}

fn text(root: &Root, path: &[u8], most: u64) -> Option<String> {
    let (mut file, stat) = root.file(path).ok()?;
    let size = u64::try_from(stat.st_size).ok().filter(|size| *size <= most)?;
    String::from_utf8(read_all(&mut file, size).ok()?).ok()
}

fn id(text: &str) -> Option<String> {
    let text = text.trim();
    let is_hex = text.len() == 40 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| text.to_owned())
}

/// A path that is written relative to `dir`, from the root. None: it is absolute or leads out.
fn below(dir: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    if path.starts_with(b"/") {
        return None;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in dir.split(|b| *b == b'/').chain(path.split(|b| *b == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_repository_says_its_commit_in_each_of_the_ways_that_git_has() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let root = Root::open(dir.path(), None).unwrap();
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        put("a/b/file", "x");
        assert_eq!(commit(&root, b"a/b"), None, "no repository");
        put("a/b/.git/HEAD", &format!("{one}\n"));
        assert_eq!(commit(&root, b"a/b"), Some(one.clone()));
        put("a/b/.git/HEAD", "ref: refs/heads/main\n");
        assert_eq!(commit(&root, b"a/b"), None, "a branch without a commit");
        put("a/b/.git/packed-refs", &format!("# pack-refs\n{one} refs/heads/xmain\n{two} refs/heads/main\n"));
        assert_eq!(commit(&root, b"a/b"), Some(two));
        put("a/b/.git/refs/heads/main", &one);
        assert_eq!(commit(&root, b"a/b"), Some(one.clone()));
        put("c/.git", "gitdir: ../a/b/.git\n");
        assert_eq!(commit(&root, b"c"), Some(one));
        for bad in ["gitdir: ../../x\n", "gitdir: /etc\n", "nonsense"] {
            put("c/.git", bad);
            assert_eq!(commit(&root, b"c"), None, "{bad}");
        }
        for bad in ["ref: refs/../../../etc/passwd", "ref: HEAD", "deadbeef", ""] {
            put("a/b/.git/HEAD", bad);
            assert_eq!(commit(&root, b"a/b"), None, "{bad}");
        }
    }
}
