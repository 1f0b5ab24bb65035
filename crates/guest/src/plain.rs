//! A plain directory as a base.

use std::fs::File;
use std::path::Path;

use countersign_tree::{EntryMode, Manifest, TreePath, is_fixed_scratch};
use countersign_types::Digest;
use rustix::fs::FileType;

use crate::confined::{Root, read_all, split, type_name};
use crate::fault::Outcome;
use crate::git::Import;
use crate::protocol::{Fault, Imported};
use crate::segment::SegmentWriter;
use crate::state::{Guest, Placer, entry, first_file};
use crate::walk::{Found, walk};

/// Copies a directory without the fixed scratch list, `.git`, and what is no file.
pub(crate) fn import(
    guest: &mut Guest,
    source: &Path,
    write_workspace: bool,
    files: &[File],
) -> Outcome<Imported> {
    let segment = first_file(files)?;
    let source = Root::open(source, None).map_err(|e| Fault::io("opening the source directory", &e))?;
    let mut import = Import::default();
    let mut found: Vec<(TreePath, FileType)> = Vec::new();
    if source.stat(b".git").is_ok() {
        import.skip(b".git", "a repository is not part of a plain directory");
    }
    walk(&source, |path, what| {
        let (_, name) = split(path);
        match what {
            Found::Dir | Found::Leaf { .. } if TreePath::is_dot_git(name) => {
                import.skip(path, "a repository inside the directory");
                false
            }
            // Build outputs and caches, as everywhere: no part of a tree, and nothing to tell.
            Found::Dir => !is_fixed_scratch(path, true),
            Found::EmptyDir => false,
            // The source may be made of several file systems; a bind mount inside it is left out and said.
            Found::Mount => {
                import.skip(path, "another file system is mounted here");
                false
            }
            Found::Failed(e) => {
                import.skip(path, &e.to_string());
                false
            }
            Found::Leaf { .. } if is_fixed_scratch(path, false) => false,
            Found::Leaf { kind, .. } => {
                match (kind, TreePath::new(path)) {
                    (FileType::RegularFile | FileType::Symlink, Ok(path)) => found.push((path, kind)),
                    (FileType::RegularFile | FileType::Symlink, Err(why)) => {
                        import.skip(path, &why.to_string())
                    }
                    (other, _) => import.skip(path, type_name(other)),
                }
                false
            }
        }
    })
    .map_err(|e| Fault::io("reading the source directory", &e))?;

    let mut writer = SegmentWriter::new(segment);
    let mut placer = write_workspace.then(|| Placer::new(&guest.root));
    for (path, kind) in found {
        let read = match kind {
            FileType::Symlink => source.read_link(path.as_bytes()).map(|t| (EntryMode::Symlink, t)),
            _ => source.file(path.as_bytes()).and_then(|(mut file, stat)| {
                let mode = if stat.st_mode & 0o100 != 0 { EntryMode::Executable } else { EntryMode::File };
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                Ok((mode, read_all(&mut file, size)?))
            }),
        };
        let (mode, bytes) = match read {
            Ok(read) => read,
            Err(e) => {
                import.skip(path.as_bytes(), &e.to_string());
                continue;
            }
        };
        let digest = Digest::of(&bytes);
        writer.append(digest, &bytes).map_err(|e| Fault::io("writing the contents", &e))?;
        if let Some(placer) = &mut placer {
            let stat = placer
                .place(&path, mode, &mut |out| out.write_all(&bytes))
                .map_err(|e| Fault::io("writing the workspace", &e))?;
            import.stats.push((path.clone(), stat));
        }
        import.entries.push(entry(path, mode, bytes.len() as u64, digest));
    }
    let located = writer.finish().map_err(|e| Fault::io("writing the contents", &e))?;
    let manifest = Manifest::new(import.entries);
    guest.base = None;
    guest.now_at(manifest.clone(), import.stats);
    Ok(Imported {
        commit: None,
        dirty: Vec::new(),
        entries: manifest.entries().to_vec(),
        located,
        skipped: import.skipped,
    })
}
