//! The sources that are packaged: where they are, their version, and their time.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::{self, Workspace};

/// The variable that gives the time of all files:
/// <https://reproducible-builds.org/specs/source-date-epoch>.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// A copy of the sources, and the directory for what is made of it.
#[derive(Clone, Debug)]
pub struct Checkout {
    pub root: PathBuf,
    /// Everything is written below it.
    pub out: PathBuf,
    pub version: String,
    /// Seconds since 1970 of the last commit, or what the environment gives.
    pub epoch_s: u64,
    /// Held while this is used, so that one process at a time writes below `out`.
    _alone: Arc<File>,
}

impl Checkout {
    /// Returns the sources of this program.
    pub fn here() -> Result<Self> {
        Self::at(workspace::root(), &Workspace::load()?.target_directory.join("package"))
    }

    /// Returns the sources in a directory.
    pub fn at(root: &Path, out: &Path) -> Result<Self> {
        fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
        let (root, out) = (root.to_owned(), out.to_owned());
        let (version, epoch_s) = (version(&root)?, epoch_s(&root)?);
        let _alone = Arc::new(lock(&out)?);
        Ok(Self { root, out, version, epoch_s, _alone })
    }

    /// Returns a command that runs in the root and knows the time.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env(EPOCH, self.epoch_s.to_string());
        command
    }

    /// Returns the time as people and standards write it: `2026-11-27T05:30:00Z`.
    pub fn time(&self) -> Result<String> {
        let mut date = Command::new("date");
        date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"]).arg(format!("@{}", self.epoch_s));
        Ok(process::stdout_of(&mut date)?.trim().to_owned())
    }

    /// Returns an empty directory of this name.
    pub fn empty_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.out.join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("clearing {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(dir)
    }
}

/// Waits until no other process packages in this directory, as cargo does with its own.
fn lock(out: &Path) -> Result<File> {
    let path = out.join("lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another process, which packages in {}", out.display());
        file.lock().with_context(|| format!("locking {}", path.display()))?;
    }
    Ok(file)
}

/// Reads the version that all members share.
fn version(root: &Path) -> Result<String> {
    let path = root.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|line| line.strip_suffix('"')).map(str::to_owned);
    version.with_context(|| format!("{} has no line `version = \"...\"`", path.display()))
}

fn epoch_s(root: &Path) -> Result<u64> {
    let text = match env::var(EPOCH) {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(root);
            process::stdout_of(&mut git).with_context(|| {
                format!(
                    "the time of the last commit is not known; set {EPOCH} to seconds since 1970"
                )
            })?
        }
    };
    let text = text.trim();
    text.parse().with_context(|| format!("{EPOCH}: `{text}` is no number of seconds"))
}
