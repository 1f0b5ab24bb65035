//! Toolchains and caches of the host that jobs may read. Only what is named by an explicit path is mounted, and never a
//! directory that holds a person's home.

use std::path::{Path, PathBuf};

use countersign_config::UserConfig;
use countersign_kernel::contract::{LayerKind, LayerTerms};
use countersign_types::{Reason, Tier};

use crate::refusal::Refusal;
use crate::{files, home};

/// Where jobs have their `HOME`.
const CELL_HOME: &str = "/home/agent";

/// The longest `settings.toml` of rustup and `version` of pyenv, in bytes.
const MAX_SETTINGS: u64 = 64 * 1024;

/// What is mounted, and what is said about it.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) layers: Vec<LayerTerms>,
    /// `PATH` entries in front of the system's.
    pub(super) path: Vec<String>,
    pub(super) notes: Vec<String>,
}

pub(super) fn find(config: &UserConfig, our_home: &Path, working: Tier) -> Result<Layers, Refusal> {
    let mut found = Layers::default();
    let user_home = home::user_home().and_then(|home| std::fs::canonicalize(home).ok());
    let guard = |path: &Path| -> Result<PathBuf, String> {
        let real = std::fs::canonicalize(path).map_err(|error| error.to_string())?;
        let holds_home =
            user_home.as_ref().is_some_and(|home| home.starts_with(&real)) || our_home.starts_with(&real);
        if !real.is_dir() {
            return Err("it is not a directory".to_owned());
        }
        if holds_home || real.parent().is_none() {
            return Err("it holds a home directory".to_owned());
        }
        Ok(real)
    };
    for toolchain in detected() {
        if guard(&toolchain).is_ok() {
            found.toolchain(&toolchain);
        }
    }
    for toolchain in &config.toolchains {
        guard(toolchain).map_err(|what| refuse("toolchains", toolchain, &what))?;
        found.toolchain(toolchain);
    }
    for (cache, target) in cargo_caches() {
        if guard(&cache).is_ok() {
            found.cache(&cache, &target);
        }
    }
    for cache in &config.caches {
        guard(&cache.host).map_err(|what| refuse("caches", &cache.host, &what))?;
        found.cache(&cache.host, &cache.cell);
    }
    if working == Tier::Host && !found.layers.is_empty() {
        found.notes.push(
            "the host sandbox mounts nothing: toolchains and caches are used where they are".to_owned(),
        );
    } else if !found.layers.is_empty() {
        found.notes.extend(found.layers.iter().map(|layer| {
            let what = match layer.kind {
                LayerKind::Toolchain => "toolchain",
                LayerKind::Cache => "cache",
            };
            let at =
                if layer.source == layer.target { String::new() } else { format!(" at {}", layer.target) };
            format!("{what} {}{at}, read-only", layer.source)
        }));
    }
    Ok(found)
}

fn refuse(key: &str, path: &Path, what: &str) -> Refusal {
    Refusal::new(
        Reason::Config,
        format!("{} in `{key}` of your configuration file cannot be mounted: {what}", path.display()),
    )
}

impl Layers {
    fn toolchain(&mut self, dir: &Path) {
        // A path that is no text cannot stand in a contract; such a toolchain is left out like a missing one.
        let Some(text) = dir.to_str() else { return };
        if self.layers.iter().any(|layer| layer.target == text) {
            return;
        }
        // A toolchain may be linked under its name (`rustup toolchain link`), and no mount goes through a link.
        let Ok(real) = std::fs::canonicalize(dir) else { return };
        let Some(source) = real.to_str() else { return };
        self.layers.push(LayerTerms {
            source: source.to_owned(),
            target: text.to_owned(),
            kind: LayerKind::Toolchain,
        });
        if dir.join("bin").is_dir() {
            self.path.push(format!("{text}/bin"));
        }
    }

    fn cache(&mut self, host: &Path, cell: &Path) {
        let (Some(host), Some(cell)) = (host.to_str(), cell.to_str()) else { return };
        if self.layers.iter().any(|layer| layer.target == cell) {
            return;
        }
        self.layers.push(LayerTerms {
            source: host.to_owned(),
            target: cell.to_owned(),
            kind: LayerKind::Cache,
        });
    }
}

/// The toolchains that the user's own shell would use.
fn detected() -> Vec<PathBuf> {
    let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let under_home = |name: &str| home::user_home().map(|home| home.join(name));
    let mut all = Vec::new();
    if let Some(root) = env("RUSTUP_HOME").or_else(|| under_home(".rustup")) {
        all.extend(rust_toolchain(
            &root,
            env("RUSTUP_TOOLCHAIN").and_then(|name| name.into_os_string().into_string().ok()),
        ));
    }
    if let Some(root) = env("PYENV_ROOT").or_else(|| under_home(".pyenv")) {
        all.extend(python_version(
            &root,
            env("PYENV_VERSION").and_then(|name| name.into_os_string().into_string().ok()),
        ));
    }
    all
}

/// rustup's toolchain: the override, else the default of `settings.toml`; a name may lack the host's triple.
fn rust_toolchain(root: &Path, chosen: Option<String>) -> Option<PathBuf> {
    let name = chosen.or_else(|| {
        let bytes = files::read_regular(&root.join("settings.toml"), MAX_SETTINGS).ok()?;
        let settings: toml::Table = String::from_utf8(bytes).ok()?.parse().ok()?;
        settings.get("default_toolchain")?.as_str().map(str::to_owned)
    })?;
    if !is_name(&name) {
        return None;
    }
    let dir = root.join("toolchains");
    let triple = format!("{name}-{}-unknown-linux-gnu", std::env::consts::ARCH);
    [name.clone(), triple].into_iter().map(|name| dir.join(name)).find(|path| path.join("bin").is_dir())
}

/// pyenv's version: the override, else the global one; the first where several are named.
fn python_version(root: &Path, chosen: Option<String>) -> Option<PathBuf> {
    let text = chosen.or_else(|| {
        let bytes = files::read_regular(&root.join("version"), MAX_SETTINGS).ok()?;
        String::from_utf8(bytes).ok()
    })?;
    let name = text.split([':', '\n', ' ']).map(str::trim).find(|name| !name.is_empty())?;
    if name == "system" || !is_name(name) {
        return None;
    }
    Some(root.join("versions").join(name)).filter(|path| path.join("bin").is_dir())
}

/// A name that stays inside the directory that it is looked up in.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/') && text != "." && text != ".."
}

/// Cargo's downloads: sources of crates and of git dependencies, and nothing with a credential.
fn cargo_caches() -> Vec<(PathBuf, PathBuf)> {
    let root = std::env::var_os("CARGO_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| home::user_home().map(|home| home.join(".cargo")));
    let Some(root) = root else { return Vec::new() };
    ["registry", "git"]
        .into_iter()
        .map(|name| (root.join(name), Path::new(CELL_HOME).join(".cargo").join(name)))
        .filter(|(host, _)| host.is_dir())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_linked_toolchain_is_mounted_from_where_it_really_lies() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(root.join("stable/bin")).unwrap();
        std::os::unix::fs::symlink("stable", root.join("1.95.0")).unwrap();
        let mut layers = Layers::default();
        layers.toolchain(&root.join("1.95.0"));
        assert_eq!(std::path::Path::new(&layers.layers[0].source), root.join("stable"));
        assert_eq!(std::path::Path::new(&layers.layers[0].target), root.join("1.95.0"));
        assert_eq!(layers.path, [root.join("1.95.0/bin").display().to_string()]);
    }

    #[test]
    fn toolchains_are_those_that_their_managers_would_use() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        for name in [
            format!("toolchains/stable-{triple}/bin"),
            "toolchains/mine/bin".into(),
            "versions/3.11.7/bin".into(),
        ] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(
            root.join("settings.toml"),
            format!("version = \"12\"\ndefault_toolchain = \"stable-{triple}\"\n"),
        )
        .unwrap();
        let stable = root.join(format!("toolchains/stable-{triple}"));
        assert_eq!(rust_toolchain(root, None), Some(stable.clone()));
        assert_eq!(rust_toolchain(root, Some("stable".into())), Some(stable));
        assert_eq!(rust_toolchain(root, Some("mine".into())), Some(root.join("toolchains/mine")));
        for bad in ["none", "../..", "", ".."] {
            assert_eq!(rust_toolchain(root, Some(bad.into())), None, "{bad}");
        }
        assert_eq!(python_version(root, None), None);
        fs::write(root.join("version"), "3.11.7\nsystem\n").unwrap();
        assert_eq!(python_version(root, None), Some(root.join("versions/3.11.7")));
        assert_eq!(python_version(root, Some("system".into())), None);
        assert_eq!(python_version(root, Some("3.11.7:3.9".into())), Some(root.join("versions/3.11.7")));
    }

    #[test]
    fn a_configured_directory_that_holds_a_home_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("tools/bin")).unwrap();
        fs::create_dir_all(root.join("inner/home")).unwrap();
        let config = |path: &Path| UserConfig { toolchains: vec![path.to_owned()], ..UserConfig::default() };
        let found = find(&config(&root.join("tools")), &root.join("inner/home"), Tier::Native).unwrap();
        let tools = root.join("tools");
        assert!(found.layers.iter().any(|layer| Path::new(&layer.source) == tools));
        assert!(found.path.contains(&format!("{}/bin", tools.display())));
        for bad in ["inner", "none"] {
            let refusal = find(&config(&root.join(bad)), &root.join("inner/home"), Tier::Native).unwrap_err();
            assert_eq!(refusal.reason, Some(Reason::Config), "{bad}");
        }
    }
}
