//! `key`: this machine's key, others' keys, and whom to trust. A key that was made here is this machine's and is trusted by nobody
//! before a person says so.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use countersign_proof::{
    AgentSigner, CommandSigner, MAX_KEY_TEXT, PublicKey, Role, SecretKey, Signer, TrustFile, TrustedKey,
};
use countersign_types::Reason;
use serde::Serialize;

use crate::args::{Format, KeyCommand, KeyTrustArgs, KeyUntrustArgs, TextOrJson};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::{exit, files, home, render, terminal, text};

/// Where continuous integration keeps a key.
const KEY_TEXT: &str = "COUNTERSIGN_SIGNING_KEY";
const KEY_FILE: &str = "COUNTERSIGN_SIGNING_KEY_FILE";
/// A command that signs, split into words; its public key is in `KEY_PUBLIC`.
const KEY_COMMAND: &str = "COUNTERSIGN_SIGNING_COMMAND";
/// A file with the public key of a signing command or of an ssh-agent's key.
const KEY_PUBLIC: &str = "COUNTERSIGN_SIGNING_PUBLIC_KEY_FILE";

fn dir(root: &Path) -> PathBuf {
    root.join("keys")
}

fn unusable(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Reason::Key, what.to_string())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn read_text(path: &Path) -> Result<String, String> {
    let bytes = files::read_regular(path, MAX_KEY_TEXT as u64)
        .map_err(|what| format!("{}: {what}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("{}: it is not UTF-8", path.display()))
}

/// Whoever signs here: what the environment names, else this machine's own key, which is made when it is first needed.
/// With a note where a variable was set and says nothing: a secret that CI does not know arrives as an empty one.
pub(super) fn signer(home: &Home) -> Result<(Box<dyn Signer>, Option<String>), Refusal> {
    let named = named_signer()?;
    if let Some(signer) = named {
        return Ok((signer, None));
    }
    let empty = [KEY_TEXT, KEY_FILE, KEY_COMMAND, KEY_PUBLIC]
        .into_iter()
        .find(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()));
    let alone = variable(KEY_PUBLIC)
        .is_some()
        .then(|| format!("{KEY_PUBLIC} is set, and neither {KEY_COMMAND} nor SSH_AUTH_SOCK says who signs"));
    let note = empty.map(|name| format!("{name} is set and empty")).or(alone);
    let note = note.map(|what| format!("{what}: this machine's own key signed"));
    machine_key(home.root()).map(|key| (Box::new(key) as Box<dyn Signer>, note))
}

/// Refuses a key that the environment names and nobody can sign with: at the end of a run it would be too late.
pub(crate) fn can_sign() -> Result<(), Refusal> {
    named_signer().map(|_| ())
}

/// Whoever the environment names.
fn named_signer() -> Result<Option<Box<dyn Signer>>, Refusal> {
    let public = || -> Result<PublicKey, Refusal> {
        let path = variable(KEY_PUBLIC).ok_or_else(|| {
            unusable(format!("{KEY_PUBLIC} has to name the file with the signer's public key"))
        })?;
        let text = read_text(Path::new(&path)).map_err(unusable)?;
        PublicKey::read(&text).map_err(|why| unusable(format!("{path}: {why}")))
    };
    if let Some(command) = variable(KEY_COMMAND) {
        let argv = countersign_config::split_words(&command)
            .map_err(|why| unusable(format!("{KEY_COMMAND} cannot be split into words: {why}")))?;
        return Ok(Some(Box::new(CommandSigner::new(argv, public()?))));
    }
    if let Some(key) = variable(KEY_TEXT) {
        return SecretKey::read(&key).map(|key| Some(Box::new(key) as Box<dyn Signer>)).map_err(|why| {
            unusable(format!("{KEY_TEXT} holds no key: {why}; `countersign key new FILE` makes one"))
        });
    }
    if let Some(path) = variable(KEY_FILE) {
        let told = |refusal: Refusal| {
            unusable(format!("{KEY_FILE}: {}; `countersign key new FILE` makes one", refusal.message))
        };
        return Ok(Some(Box::new(read_secret(Path::new(&path)).map_err(told)?)));
    }
    if variable(KEY_PUBLIC).is_some()
        && let Some(socket) = variable("SSH_AUTH_SOCK")
    {
        let signer = AgentSigner::new(Path::new(&socket), public()?).map_err(unusable)?;
        return Ok(Some(Box::new(signer)));
    }
    Ok(None)
}

fn read_secret(path: &Path) -> Result<SecretKey, Refusal> {
    let metadata = fs::metadata(path).map_err(|error| unusable(format!("{}: {error}", path.display())))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(unusable(format!(
            "{} can be read by others: chmod 600 it, and make a new key if somebody may have done so",
            path.display()
        )));
    }
    let text = read_text(path).map_err(unusable)?;
    SecretKey::read(&text).map_err(|why| unusable(format!("{}: {why}", path.display())))
}

/// What no record may hold of the key that signs: its text as it is given, and each line of it by itself, because a key
/// that was cut into its lines is a key all the same.
pub(crate) fn signing_secrets() -> Vec<Vec<u8>> {
    let given: Option<Vec<u8>> = std::env::var_os(KEY_TEXT).map(std::ffi::OsString::into_vec);
    let file = std::env::var_os(KEY_FILE).map(PathBuf::from);
    // A file that cannot be read is told when something is to be signed.
    let stored = file.and_then(|path| files::read_regular(&path, MAX_KEY_TEXT as u64).ok());
    given.into_iter().chain(stored).flat_map(|text| key_parts(&text)).collect()
}

fn key_parts(text: &[u8]) -> Vec<Vec<u8>> {
    const LEAST: usize = 16;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| line.len() >= LEAST && !line.starts_with(b"-----"));
    std::iter::once(text).chain(lines).map(<[u8]>::to_vec).collect()
}

fn machine_path(root: &Path) -> PathBuf {
    dir(root).join("machine")
}

fn machine_key(root: &Path) -> Result<SecretKey, Refusal> {
    let path = machine_path(root);
    if !files::exists(&path) {
        let key = SecretKey::generate("countersign on this machine").map_err(unusable)?;
        match write_secret(&path, &key) {
            Ok(()) => return Ok(key),
            // Somebody else was first: theirs is the one.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unusable(format!("{}: {error}", path.display()))),
        }
    }
    read_secret(&path)
}

fn write_secret(path: &Path, key: &SecretKey) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let text = key.to_openssh().map_err(std::io::Error::other)?;
    // Whole or not at all, and never over another key.
    let mut file = tempfile::Builder::new()
        .prefix(".key-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(parent)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    fs::File::open(parent)?.sync_all()
}

/// The keys that this home trusts.
pub(super) fn trusted(root: &Path) -> Result<TrustFile, Refusal> {
    let path = dir(root).join("trusted.toml");
    if !files::exists(&path) {
        return Ok(TrustFile::default());
    }
    read_trust(&path)
}

pub(super) fn read_trust(path: &Path) -> Result<TrustFile, Refusal> {
    let refuse =
        |what: String| Refusal::new(Reason::Config, format!("the trust file {}: {what}", path.display()));
    let bytes = files::read_regular(path, 1 << 20).map_err(refuse)?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
    TrustFile::read(&text).map_err(|why| refuse(why.to_string()))
}

#[derive(Debug, Serialize)]
struct Shown {
    /// By which it is trusted, or this machine's; null: nobody here has named it.
    name: Option<String>,
    key_id: String,
    fingerprint: String,
    openssh: String,
    pem: String,
    roles: Vec<&'static str>,
    trusted: bool,
}

impl Shown {
    fn of(name: Option<&str>, public: &PublicKey, trust: &TrustFile) -> Self {
        let known = trust.by_public(public);
        Self {
            name: known.map(|key| key.name.as_str()).or(name).map(str::to_owned),
            key_id: public.id().to_string(),
            fingerprint: public.fingerprint(),
            openssh: public.to_openssh(),
            pem: public.to_pem(),
            roles: known.iter().flat_map(|key| &key.roles).map(|role| role.as_str()).collect(),
            trusted: known.is_some(),
        }
    }
}

impl Shown {
    fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("a key without a name here")
    }
}

/// What this machine's own key is called.
const MACHINE: &str = "this machine";

pub(crate) fn key(command: &KeyCommand) -> u8 {
    let (format, done) = match command {
        KeyCommand::New(args) => (args.format, new(args.file.as_deref(), args.format)),
        KeyCommand::Show(args) => (args.format, show(args.file.as_deref(), args.format)),
        KeyCommand::Trust(args) => (args.format, trust(args)),
        KeyCommand::Untrust(args) => (args.format, untrust(args)),
        KeyCommand::List(args) => (args.format, list(args.format)),
    };
    match done {
        Ok(()) => exit::DONE,
        Err(refusal) => {
            let format = if format == TextOrJson::Json { Format::Json } else { Format::Text };
            render::refused(format, &refusal)
        }
    }
}

fn new(file: Option<&Path>, format: TextOrJson) -> Result<(), Refusal> {
    let root = home::path()?;
    let path = file.map_or_else(|| machine_path(&root), Path::to_owned);
    let key = SecretKey::generate("countersign").map_err(unusable)?;
    write_secret(&path, &key).map_err(|error| {
        let advice = if error.kind() == std::io::ErrorKind::AlreadyExists {
            "; a key is never written over another: move that one away first"
        } else {
            ""
        };
        unusable(format!("{}: {error}{advice}", path.display()))
    })?;
    terminal::err_line(&text::safe(&format!("the secret key is in {}; keep it there", path.display())));
    print(&Shown::of(None, &key.public(), &trusted(&root)?), format)
}

/// A public key's file, a secret key's, or this machine's.
fn public_of(file: Option<&Path>, root: &Path) -> Result<PublicKey, Refusal> {
    let Some(path) = file else { return Ok(machine_key(root)?.public()) };
    let text = read_text(path).map_err(unusable)?;
    PublicKey::read(&text)
        .or_else(|_| SecretKey::read(&text).map(|key| key.public()))
        .map_err(|why| unusable(format!("{}: {why}", path.display())))
}

fn show(file: Option<&Path>, format: TextOrJson) -> Result<(), Refusal> {
    let root = home::path()?;
    let public = public_of(file, &root)?;
    let machine = files::exists(&machine_path(&root)).then(|| machine_key(&root)).transpose()?;
    let name = machine.filter(|key| key.public() == public).map(|_| MACHINE);
    print(&Shown::of(name, &public, &trusted(&root)?), format)
}

fn print(shown: &Shown, format: TextOrJson) -> Result<(), Refusal> {
    match format {
        TextOrJson::Json => {
            let line = serde_json::to_string(shown).map_err(|error| Refusal::bug(error.to_string()))?;
            terminal::out_line(&line);
        }
        TextOrJson::Text => {
            let trust = if shown.trusted {
                format!("trusted as {} for {}", shown.called(), shown.roles.join(", "))
            } else {
                format!("{}, not trusted here: `countersign key trust` says who is", shown.called())
            };
            // The public key alone is data, so that it can be written into a file.
            terminal::out_line(&shown.openssh);
            let (id, print, pem) = (&shown.key_id, &shown.fingerprint, shown.pem.trim_end());
            let about = format!("key id       {id}\nfingerprint  {print}\n{trust}\n{pem}");
            terminal::err_line(&text::safe(&about));
        }
    }
    Ok(())
}

fn trust(args: &KeyTrustArgs) -> Result<(), Refusal> {
    let root = home::path()?;
    let mut known = trusted(&root)?;
    let time = |flag: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => countersign_proof::time::parse_rfc3339(text).map(Some).ok_or_else(|| {
            Refusal::usage(format!(
                "{flag} `{}` is no time such as 2026-12-31T23:59:59Z",
                text::one_line(text, 60)
            ))
        }),
    };
    let roles = if args.role.is_empty() { vec![Role::Runner, Role::Verifier] } else { args.role.clone() };
    let key = TrustedKey {
        name: args.name.clone(),
        public: public_of(args.file.as_deref(), &root)?,
        roles: roles.into_iter().collect(),
        not_before: time("--not-before", &args.not_before)?,
        not_after: time("--not-after", &args.not_after)?,
    };
    let shown = key.public.clone();
    known.add(key).map_err(|why| {
        Refusal::usage(format!(
            "{why}. `countersign key list` shows what is trusted, `countersign key untrust KEY` takes it back"
        ))
    })?;
    keep(&root, &known)?;
    print(&Shown::of(Some(&args.name), &shown, &known), args.format)
}

fn untrust(args: &KeyUntrustArgs) -> Result<(), Refusal> {
    let root = home::path()?;
    let mut known = trusted(&root)?;
    let named = text::one_line(&args.key, 80);
    let gone = known.remove(&args.key).map_err(|names| {
        Refusal::usage(format!("`{named}` could be each of {}: say more of it", names.join(", ")))
    })?;
    let gone = gone.ok_or_else(|| {
        Refusal::usage(format!(
            "no trusted key has the name, key id or fingerprint `{named}`; `countersign key list` shows them"
        ))
    })?;
    keep(&root, &known)?;
    print(&Shown::of(Some(&gone.name), &gone.public, &known), args.format)
}

/// Writes the keys that this home trusts, whole or not at all.
fn keep(root: &Path, known: &TrustFile) -> Result<(), Refusal> {
    let dir = dir(root);
    let write = || -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&dir)?;
        file.write_all(known.to_toml().as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(dir.join("trusted.toml")).map_err(|error| error.error)?;
        fs::File::open(&dir)?.sync_all()
    };
    write().map_err(|error| unusable(format!("{}: {error}", dir.display())))
}

fn list(format: TextOrJson) -> Result<(), Refusal> {
    let root = home::path()?;
    let known = trusted(&root)?;
    let mut all: Vec<Shown> =
        known.keys().iter().map(|key| Shown::of(Some(&key.name), &key.public, &known)).collect();
    if files::exists(&machine_path(&root)) {
        let machine = machine_key(&root)?.public();
        if known.by_public(&machine).is_none() {
            all.push(Shown::of(Some(MACHINE), &machine, &known));
        }
    }
    match format {
        TextOrJson::Json => {
            let line = serde_json::to_string(&all).map_err(|error| Refusal::bug(error.to_string()))?;
            terminal::out_line(&line);
        }
        TextOrJson::Text => {
            for key in &all {
                let trust = if key.trusted { key.roles.join(", ") } else { "not trusted".to_owned() };
                terminal::out_line(&text::safe(&format!("{}  {}  {trust}", key.fingerprint, key.called())));
            }
            if all.is_empty() {
                terminal::err_line(
                    "no keys yet: the first run makes this machine's, `countersign key trust` adds others",
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_cut_into_lines_is_a_secret_still() {
        let text = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\r\n  seedseedseedseed  \nshort\n-----END PRIVATE KEY-----\n";
        let parts = key_parts(text);
        assert_eq!(parts[0], text);
        assert_eq!(parts[1..], [b"MC4CAQAwBQYDK2VwBCIEIJ".to_vec(), b"seedseedseedseed".to_vec()]);
    }
}
