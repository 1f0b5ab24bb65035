//! `init`: the first step in a repository. Finds how the project is tested, writes a profile of the user's own that says so,
//! outside of the repository, and names the next command. Nothing that is there is overwritten.

use std::path::{Path, PathBuf};

use countersign_gates::profile::{ProfileFiles, ProfileTerms};
use countersign_types::{Reason, Trust};

use super::{new, read, store, unusable};
use crate::args::{Format, InitArgs, ProjectArgs};
use crate::refusal::Refusal;
use crate::run::{self, repository};
use crate::{exit, files, render, terminal, text};

/// Below our part of the user's configuration directory.
const PROFILES: &str = "profiles";

pub(crate) fn init(args: &InitArgs) -> u8 {
    match begin(args) {
        Ok(()) => exit::DONE,
        Err(refusal) => render::refused(Format::Text, &refusal),
    }
}

fn begin(args: &InitArgs) -> Result<(), Refusal> {
    let root = root(&args.project)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => named_like(&root),
    };
    new::is_name(&name)?;
    let dir = match run::user_file(PROFILES) {
        Some(dir) => dir.join(&name),
        None => {
            return Err(Refusal::new(
                Reason::Config,
                "there is no place for your own profile: set HOME or XDG_CONFIG_HOME",
            ));
        }
    };
    if dir.starts_with(&root) {
        return Err(Refusal::new(
            Reason::Config,
            format!(
                "{} lies in the project, where an agent could change it: set XDG_CONFIG_HOME to a directory elsewhere",
                dir.display()
            ),
        ));
    }
    let main = dir.join(ProfileFiles::MAIN);
    if files::exists(&dir) && !args.print {
        let (_, profile) = read(&dir)?;
        terminal::err_line(&format!("kept       {}, which is there already", main.display()));
        return done(args, &dir, &profile.terms);
    }
    let (terms, because) = new::terms(&name, args.check.as_deref(), &args.project)?;
    let check = text::safe(&new::shown_check(&terms));
    terminal::err_line(&format!("found      the check `{check}` ({because})"));
    if args.print {
        let text = new::text_of(&terms).map_err(|error| Refusal::bug(error.to_string()))?;
        terminal::out_bytes(text.as_bytes());
        terminal::err_line(&format!("would be   {}", main.display()));
        return Ok(());
    }
    new::write(&dir, &terms).map_err(|error| unusable(format!("{}: {error}", dir.display())))?;
    terminal::err_line(&format!("wrote      {}, which is yours to change", main.display()));
    done(args, &dir, &terms)
}

/// Registers what the user's own directory holds, and says what to do next.
fn done(args: &InitArgs, dir: &Path, terms: &ProfileTerms) -> Result<(), Refusal> {
    let name = &terms.name;
    let shown = |path: &Path| text::quoted(&path.display().to_string());
    let mut place = String::new();
    if let Some(repo) = &args.project.repo {
        place.push_str(&format!(" --repo {}", shown(repo)));
    }
    if let Some(trust) = args.project.trust {
        place.push_str(&format!(" --trust {trust}"));
    }
    terminal::out_line(&dir.join(ProfileFiles::MAIN).display().to_string());
    if args.project.trust == Some(Trust::Untrusted) {
        // An untrusted project does not choose how it is judged: a person looks first.
        let dir = shown(dir);
        terminal::err_line(&format!(
            "next       look the file over, then countersign profile register {dir}"
        ));
        return Ok(());
    }
    let (files, _) = read(dir)?;
    let digest = store()?.register(&files, name).map_err(unusable)?;
    terminal::err_line(&format!("registered {name}@{digest}"));
    // The directory: a name could be that of another one here.
    let at = shown(dir);
    terminal::err_line(&format!("next       countersign profile check {at}{place}"));
    terminal::err_line(&format!(
        "then       countersign run \"TASK\"{place} --profile {name} --model PROVIDER:MODEL"
    ));
    Ok(())
}

/// The root of the project that the user is in.
fn root(project: &ProjectArgs) -> Result<PathBuf, Refusal> {
    let dir = project.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let refuse = |what: String| {
        let dir = dir.display();
        Refusal::new(Reason::Repository, format!("{dir}: {what}; --repo takes the project's directory"))
    };
    let at = std::fs::canonicalize(&dir).map_err(|error| refuse(error.to_string()))?;
    Ok(match repository::root_of(&at).map_err(refuse)? {
        repository::Root::WorkTree(root) => root,
        repository::Root::Bare | repository::Root::Plain => at,
    })
}

/// The directory's name with what no profile's name may hold replaced.
fn named_like(root: &Path) -> String {
    let name = root.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).take(64).collect();
    let name = name.trim_matches(['.', '-', '_']).to_owned();
    if name.is_empty() { "project".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_gives_a_name_that_a_profile_can_have() {
        for (dir, name) in [
            ("/a/My Project", "my-project"),
            ("/", "project"),
            ("/x/.hidden", "hidden"),
            ("/x/漢字", "project"),
        ] {
            assert_eq!(named_like(Path::new(dir)), name);
            assert!(ProfileTerms::is_name(name));
        }
        assert!(ProfileTerms::is_name(&named_like(Path::new(&format!("/{}", "x".repeat(200))))));
    }
}
