//! The second half of `cargo xtask docs`: the pages below `docs/` as a book (mdBook, pinned, installed by set-up below the target directory), with every link
//! of the built pages followed, and a list of what was built, against which a deployed copy can be checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sh::{self, Context, Error, Result};
use crate::workspace::Workspace;

/// The version of mdBook that builds the book.
pub const MDBOOK: &str = "0.5.4";

/// What a deployed copy holds: `sha256sum` lines, sorted by path.
const LIST: &str = "SHA256SUMS";

/// Installs mdBook where it is not yet, without its server and its search.
///
/// # Errors
/// When it cannot be downloaded or compiled.
pub fn install(workspace: &Workspace) -> Result<()> {
    let program = program(workspace);
    let said = sh::capture(Command::new(&program).arg("--version")).unwrap_or_default();
    if said.trim() == format!("mdbook v{MDBOOK}") {
        return Ok(());
    }
    sh::say(&format!("installing mdbook {MDBOOK}"));
    let mut cargo = workspace.cargo();
    cargo
        .args([
            "install",
            "mdbook",
            "--version",
            MDBOOK,
            "--locked",
            "--no-default-features",
            "--quiet",
            "--force",
        ])
        .arg("--root")
        .arg(workspace.target.join("tools"))
        .env("CARGO_TARGET_DIR", workspace.target.join("tools-build"));
    sh::run(&mut cargo)
}

fn program(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools/bin/mdbook")
}

/// Builds the book, follows its links, lists its files. Gives its directory.
///
/// # Errors
/// When mdBook is missing or fails, or a link leads nowhere.
pub fn build(workspace: &Workspace) -> Result<PathBuf> {
    let program = program(workspace);
    if !program.is_file() {
        return Err(Error::new("mdbook is not installed: run cargo xtask setup"));
    }
    let book = workspace.target.join("book");
    sh::remove_tree(&book)?;
    sh::run(Command::new(&program).args(["build", "--dest-dir"]).arg(&book).arg(&workspace.root))?;
    outside(workspace, &book)?;
    let broken = broken_links(&book)?;
    if !broken.is_empty() {
        return Err(Error::new(format!("links that lead nowhere:\n  {}", broken.join("\n  "))));
    }
    let list = listed(&book)?;
    let path = book.join(LIST);
    std::fs::write(&path, list).context(path.display())?;
    Ok(book)
}

/// Pages name files of the repository that are no part of the book, the licence and sources: those are copied beside it as text.
fn outside(workspace: &Workspace, book: &Path) -> Result<()> {
    for page in html(book)? {
        let mut text = std::fs::read_to_string(book.join(&page)).context(page.display())?;
        for link in links(&text) {
            let Some(rest) = link.strip_prefix("../") else { continue };
            let file = rest.split_once('#').map_or(rest, |(file, _)| file);
            // What mdBook took for a page of its own is none.
            let source = match file.strip_suffix(".html") {
                Some(stem) => format!("{stem}.md"),
                None => file.to_owned(),
            };
            let from = workspace.root.join(&source);
            if source.contains("..") || !from.is_file() {
                continue;
            }
            let name = format!("repository/{}.txt", source.replace('/', "-"));
            let to = book.join(&name);
            std::fs::create_dir_all(book.join("repository")).context("repository")?;
            std::fs::copy(&from, &to).context(from.display())?;
            text = text.replace(&format!("href=\"{link}\""), &format!("href=\"{name}\""));
        }
        std::fs::write(book.join(&page), text).context(page.display())?;
    }
    Ok(())
}

/// Every page, by its path in the book.
fn html(book: &Path) -> Result<Vec<PathBuf>> {
    Ok(sh::files_below(book)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "html"))
        .collect())
}

/// The targets of `href` and `src` in a page.
fn links(page: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for attribute in ["href=\"", "src=\""] {
        for rest in page.split(attribute).skip(1) {
            if let Some((link, _)) = rest.split_once('"') {
                out.insert(link.to_owned());
            }
        }
    }
    out
}

/// Each link of a page to a file or a heading that is not there. Addresses of other hosts are not asked: a page works without a network.
fn broken_links(book: &Path) -> Result<Vec<String>> {
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    for page in html(book)? {
        pages.insert(page.clone(), std::fs::read_to_string(book.join(&page)).context(page.display())?);
    }
    let mut broken = Vec::new();
    for (page, text) in &pages {
        // The page of an address that does not exist is shown below any path, and 404.html is made for a root.
        if page.ends_with("404.html") {
            continue;
        }
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { normal(page, file) };
            let there = book.join(&target);
            let known = there.is_file() || (there.is_dir() && there.join("index.html").is_file());
            let heading = pages.get(&target).filter(|_| !anchor.is_empty());
            let missing = heading.is_some_and(|text| !text.contains(&format!("id=\"{anchor}\"")));
            if !known || missing {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    Ok(broken)
}

/// A link's path from a page, without `.` and `..`.
fn normal(page: &Path, link: &str) -> PathBuf {
    let mut out: Vec<&str> =
        page.parent().into_iter().flat_map(Path::iter).filter_map(std::ffi::OsStr::to_str).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.iter().collect()
}

/// `sha256sum` lines of every file but the list.
fn listed(book: &Path) -> Result<String> {
    let names: Vec<PathBuf> =
        sh::files_below(book)?.into_iter().filter(|path| !path.ends_with(LIST)).collect();
    sh::capture(Command::new("sha256sum").current_dir(book).arg("--").args(names))
}

/// Holds a deployed copy against the list of the book that was built: a directory, or an address that `curl` reads.
///
/// # Errors
/// When the book was not built, or a file of the copy is missing or another.
pub fn check(workspace: &Workspace, copy: &str) -> Result<()> {
    let list = workspace.target.join("book").join(LIST);
    let list = std::fs::read_to_string(&list)
        .map_err(|_| Error::new("there is no book to compare with: run cargo xtask docs first"))?;
    let mut wrong = Vec::new();
    let mut same = 0;
    for line in list.lines() {
        let Some((digest, path)) = line.split_once("  ") else { continue };
        match fetched(copy, path) {
            Ok(found) if found == digest => same += 1,
            Ok(_) => wrong.push(format!("{path} is another file")),
            Err(why) => wrong.push(format!("{path}: {why}")),
        }
    }
    if wrong.is_empty() {
        return sh::print(&format!("{copy}: all {same} files are those of the book"));
    }
    Err(Error::new(format!("{copy} is not the book that was built:\n  {}", wrong.join("\n  "))))
}

fn fetched(copy: &str, path: &str) -> Result<String> {
    let file = std::env::temp_dir().join(format!("countersign-docs-{}", std::process::id()));
    let at = if copy.contains("://") {
        let address = format!("{}/{path}", copy.trim_end_matches('/'));
        sh::run(
            Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", "30", "--output"])
                .arg(&file)
                .arg(address),
        )?;
        file.clone()
    } else {
        Path::new(copy).join(path)
    };
    let said = sh::capture(Command::new("sha256sum").arg("--").arg(&at));
    let _ = std::fs::remove_file(&file);
    Ok(said?.split_whitespace().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let dir = std::env::temp_dir().join(format!("countersign-docs-links-{}", std::process::id()));
        sh::remove_tree(&dir).unwrap();
        std::fs::create_dir_all(dir.join("a")).unwrap();
        let page = r##"<h1 id="top"></h1><a href="a/b.html#there">x</a><a href="#top">x</a><a href="https://example.com/">x</a>"##;
        std::fs::write(dir.join("index.html"), page).unwrap();
        std::fs::write(dir.join("a/b.html"), r#"<h2 id="there"></h2><a href="../index.html">x</a>"#).unwrap();
        assert_eq!(broken_links(&dir).unwrap(), Vec::<String>::new());
        std::fs::write(dir.join("a/b.html"), r#"<a href="../none.html">x</a><img src="x.png">"#).unwrap();
        let broken = broken_links(&dir).unwrap();
        assert_eq!(broken, ["a/b.html: ../none.html", "a/b.html: x.png", "index.html: a/b.html#there"]);
        sh::remove_tree(&dir).unwrap();
    }
}
