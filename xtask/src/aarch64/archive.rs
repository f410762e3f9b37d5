//! A private view of the Debian archive that this machine already uses: same mirror, same proxy,
//! same keys, but with arm64 added and all its own files below one directory.
//!
//! apt names the mirror at run time, and the private directory is removed after use.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt whose state is in `dir`.
pub struct AptArchive {
    dir: PathBuf,
}

impl AptArchive {
    /// Creates the directory and its configuration.
    pub fn open(dir: PathBuf) -> Result<AptArchive> {
        ensure!(process::find("apt-get").is_some(), "this machine has no apt-get (not Debian)");
        let machine = process::stdout_of(Command::new("dpkg").arg("--print-architecture"))?;
        ensure!(machine.trim() == "amd64", "Debian's route works on amd64 only");
        let (sources, acquire) = (sources()?, acquire()?);
        let archive = AptArchive { dir };
        for sub in ["state/lists/partial", "cache/archives/partial"] {
            let sub = archive.dir.join(sub);
            fs::create_dir_all(&sub).with_context(|| format!("creating {}", sub.display()))?;
        }
        archive.write("sources.list", &sources)?;
        archive.write("apt.conf", &settings(&archive.dir, &acquire))?;
        Ok(archive)
    }

    /// Downloads the package lists of both architectures.
    pub fn update(&self) -> Result<()> {
        process::run(self.apt("apt-get").args(["--quiet=2", "update"]))
    }

    /// Returns the version that apt would install for this machine.
    pub fn candidate(&self, package: &str) -> Result<Option<String>> {
        let policy = process::stdout_of(self.apt("apt-cache").args(["policy", package]))?;
        Ok(candidate_of(&policy))
    }

    /// Downloads the compiler, the packages that this machine lacks to run it, and the library for
    /// arm64.
    pub fn download(&self, compiler: &str, library: &str) -> Result<()> {
        let only = ["--quiet=2", "--yes", "--download-only", "--no-install-recommends", "install"];
        process::run(self.apt("apt-get").args(only).arg(compiler))?;
        let mut foreign = self.apt("apt-get");
        foreign.args(["--quiet=2", "download", &format!("{library}:arm64")]);
        process::run(foreign.current_dir(self.packages()))
    }

    /// Returns the packages downloaded so far.
    pub fn debs(&self) -> Result<Vec<PathBuf>> {
        let dir = self.packages();
        let entries = fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "deb")).collect())
    }

    /// Removes the private directory.
    pub fn close(self) -> Result<()> {
        let dir = &self.dir;
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))
    }

    fn packages(&self) -> PathBuf {
        self.dir.join("cache/archives")
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.dir.join("apt.conf"));
        command
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// Returns the Debian sources of this machine, for both architectures.
fn sources() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]);
    targets.args(["Created-By: Packages", "Origin: Debian"]);
    let known = process::stdout_of(&mut targets)?;
    let keys = if Path::new(KEYRING).exists() { KEYRING } else { "" };
    let text = sources_of(&known, keys);
    ensure!(!text.is_empty(), "apt knows no Debian package list; run `apt-get update` once");
    Ok(text)
}

fn sources_of(known: &str, keys: &str) -> String {
    let signed = if keys.is_empty() { String::new() } else { format!(" signed-by={keys}") };
    let lines: BTreeSet<&str> = known.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().map(|line| format!("deb [arch=amd64,arm64{signed}] {line}\n")).collect()
}

/// Returns this machine's download settings (proxies, timeouts), without its sources.
fn acquire() -> Result<String> {
    let dump = process::stdout_of(Command::new("apt-config").arg("dump"))?;
    Ok(acquire_of(&dump))
}

fn acquire_of(dump: &str) -> String {
    let lines = dump.lines().filter(|line| line.starts_with("Acquire::"));
    let ours = ["Acquire::IndexTargets", "Acquire::Languages"];
    let kept = lines.filter(|line| !ours.iter().any(|prefix| line.starts_with(prefix)));
    kept.map(|line| format!("{line}\n")).collect()
}

fn settings(dir: &Path, acquire: &str) -> String {
    let dir = dir.display();
    format!(
        r#"{acquire}Acquire::Languages "none";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "{dir}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{dir}/state";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "{dir}/cache";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; "arm64"; }};
APT::Sandbox::User "";
Debug::NoLocking "1";
"#
    )
}

fn candidate_of(policy: &str) -> Option<String> {
    let line = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (line != "(none)").then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_stands_once_and_for_both_architectures() {
        let known = "http://m/debian/ stable main\nhttp://m/debian/ stable main\n\n";
        let want = "deb [arch=amd64,arm64 signed-by=/k.gpg] http://m/debian/ stable main\n";
        assert_eq!(sources_of(known, "/k.gpg"), want);
        assert_eq!(sources_of("", "/k.gpg"), "");
    }

    #[test]
    fn settings_keep_the_proxy_and_drop_the_index_targets() {
        let dump = "APT \"\";\nAcquire::http::Proxy \"http://p:1\";\n\
                    Acquire::IndexTargets::deb \"\";\nAcquire::Languages:: \"en\";\n";
        assert_eq!(acquire_of(dump), "Acquire::http::Proxy \"http://p:1\";\n");
    }

    #[test]
    fn no_candidate_is_none() {
        assert_eq!(candidate_of("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_of("x:\n  Candidate: 1.96.0+d\n").as_deref(), Some("1.96.0+d"));
        assert_eq!(candidate_of(""), None);
    }
}
