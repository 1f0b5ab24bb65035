//! `cargo xtask build`: `countersign`, and beside it the two programs that it starts inside cells.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::sh::{self, Context, Error, Result};
use crate::workspace::{STATIC_TARGET, Workspace, profile_dir};

/// Started inside cells, where no loader and no library of the host can be relied on: static, at a fixed address.
pub const CELL_PROGRAMS: [&str; 2] = ["countersign-jail", "countersign-guest"];

/// The profile of the cell programs. They hash and walk whole trees, so they are optimised in every build.
const CELL_PROFILE: &str = "cell";

/// Builds everything and returns the directory that holds the finished set.
///
/// # Errors
/// When a build fails or a cell program is not static.
pub fn build(workspace: &Workspace, release: bool) -> Result<PathBuf> {
    let set = workspace.bin_dir(release);
    std::fs::create_dir_all(&set).context(set.display())?;

    let mut cell = workspace.cargo();
    cell.args(["build", "--target", STATIC_TARGET, "--profile", CELL_PROFILE])
        .args(["--config", "profile.cell.inherits='release'"])
        .args(["--config", "profile.cell.lto=false", "--config", "profile.cell.codegen-units=16"])
        .args(["--config", "profile.cell.debug=false", "--config", "profile.cell.strip=true"])
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
    for program in CELL_PROGRAMS {
        cell.args(["--package", program]);
    }
    sh::run(&mut cell)?;

    let mut host = workspace.cargo();
    host.args(["build", "--package", "countersign", "--bin", "countersign"]);
    if release {
        host.arg("--release");
    }
    sh::run(&mut host)?;

    let host_dir = workspace.target.join(profile_dir(release));
    for program in CELL_PROGRAMS {
        let built = workspace.target.join(STATIC_TARGET).join(CELL_PROFILE).join(program);
        check_static(&built)?;
        install(&built, &set)?;
        install(&built, &host_dir)?;
    }
    install(&host_dir.join("countersign"), &set)?;
    Ok(set)
}

/// Puts a copy of `file` into `dir` unless the same is there. A running copy keeps its old bytes: the new one comes
/// under another name first.
fn install(file: &Path, dir: &Path) -> Result<()> {
    let name =
        file.file_name().and_then(OsStr::to_str).ok_or_else(|| Error::new("a program without a name"))?;
    let to = dir.join(name);
    let new = std::fs::read(file).context(file.display())?;
    if std::fs::read(&to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    std::fs::copy(file, &temporary).context(temporary.display())?;
    std::fs::rename(&temporary, &to).context(to.display())
}

/// Program header type of the loader's path.
const PT_INTERP: u32 = 3;
/// Size of the header of a 64-bit ELF file, bytes.
const ELF_HEADER: usize = 64;

/// # Errors
/// When the file is not a 64-bit little-endian ELF program, or asks for a loader.
pub fn check_static(file: &Path) -> Result<()> {
    let bytes = std::fs::read(file).context(file.display())?;
    match asks_for_loader(&bytes) {
        Some(false) => Ok(()),
        Some(true) => Err(Error::new(format!(
            "{} is not static: it asks for a loader. Is libc6-dev (libc.a) installed? `cargo xtask setup` installs it.",
            file.display()
        ))),
        None => Err(Error::new(format!("{} is not a 64-bit ELF program", file.display()))),
    }
}

/// Whether an ELF program has a `PT_INTERP` header; `None` when the bytes are no such program.
#[must_use]
pub fn asks_for_loader(elf: &[u8]) -> Option<bool> {
    let field = |at: usize, size: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    if elf.len() < ELF_HEADER || elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(field(32, 8)?).ok()?;
    let (size, count) = (usize::try_from(field(54, 2)?).ok()?, usize::try_from(field(56, 2)?).ok()?);
    for index in 0..count {
        let at = table.checked_add(index.checked_mul(size)?)?;
        if field(at, 4)? == u64::from(PT_INTERP) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(header_types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; ELF_HEADER];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(header_types.len()).unwrap();
        for kind in header_types {
            let mut header = vec![0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            bytes.extend(header);
        }
        bytes
    }

    #[test]
    fn a_loader_is_found_wherever_its_header_stands() {
        assert_eq!(asks_for_loader(&elf(&[6, 1, 3])), Some(true));
        assert_eq!(asks_for_loader(&elf(&[6, 1, 2])), Some(false));
    }

    #[test]
    fn what_is_no_program_is_neither() {
        assert_eq!(asks_for_loader(b"#!/bin/sh\n"), None);
        assert_eq!(asks_for_loader(&elf(&[3])[..66]), None);
    }

    #[test]
    fn this_test_is_a_dynamic_program() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(asks_for_loader(&this), Some(true));
    }
}
