//! Access to Debian's archive through the host's apt tools, with lists and settings of the lab's
//! own. The host's packages and lists are neither used nor changed. The mirror is the host's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The suites that carry the lab's kernels.
const SUITES: &str = "bullseye bookworm bookworm-backports trixie trixie-backports sid";
/// Of these one that carries a kernel only: its programs have faults that later ones lack. The awk
/// of its busybox writes beyond a long field.
const OF_KERNEL_ONLY: &str = "bullseye";
/// The archive's keys, from the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists younger than this are not fetched again.
const LISTS_FRESH: Duration = Duration::from_secs(3600);

/// A configured archive.
#[derive(Debug)]
pub struct Apt {
    dir: PathBuf,
}

impl Apt {
    /// Configures a private apt in a directory and updates its lists.
    pub fn open(dir: &Path) -> Result<Self> {
        let apt = Self { dir: dir.to_owned() };
        apt.configure().context("cannot set a private apt up")?;
        apt.update()?;
        Ok(apt)
    }

    fn configure(&self) -> Result<()> {
        let keyring = Path::new(KEYRING).exists();
        ensure!(keyring, "no {KEYRING}: install debian-archive-keyring");
        for dir in ["state/lists/partial", "cache/archives/partial", "sources"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        fs::write(self.dir.join("status"), "")?;
        fs::write(self.dir.join("apt.conf"), settings(&self.dir))?;
        fs::write(self.dir.join("sources/lab.sources"), sources(&host_mirror()?))?;
        Ok(())
    }

    fn update(&self) -> Result<()> {
        let stamp = self.dir.join("updated");
        let age = fs::metadata(&stamp).and_then(|meta| meta.modified()).map(|time| time.elapsed());
        if matches!(age, Ok(Ok(age)) if age < LISTS_FRESH) {
            return Ok(());
        }
        self.tool("apt-get", &["-q", "update", "-o", "APT::Update::Error-Mode=any"]).with_context(
            || "cannot fetch Debian's lists; if a key is unknown, update debian-archive-keyring",
        )?;
        Ok(fs::write(stamp, "")?)
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).env("APT_CONFIG", self.dir.join("apt.conf")).env("LC_ALL", "C");
        stdout_of(&mut command)
    }

    /// Returns all versions of a package, as the archive's tool lists them.
    pub fn versions(&self, package: &str) -> Result<Vec<String>> {
        let listed = self.tool("apt-cache", &["madison", package])?;
        Ok(versions_and_suites(&listed).map(|(version, _)| version.to_owned()).collect())
    }

    /// Returns the versions of a package of programs for guests.
    pub fn program_versions(&self, package: &str) -> Result<Vec<String>> {
        let listed = self.tool("apt-cache", &["madison", package])?;
        let later = versions_and_suites(&listed).filter(|&(_, suite)| suite != OF_KERNEL_ONLY);
        Ok(later.map(|(version, _)| version.to_owned()).collect())
    }

    /// Returns the dependencies of a package, as written in its record.
    pub fn depends(&self, package: &DebianPackage) -> Result<Vec<DebianPackage>> {
        let record = self.tool("apt-cache", &["show", &package.pinned()])?;
        Ok(parse_depends(&record))
    }

    /// Downloads a package and unpacks it into a directory.
    pub fn unpack(&self, package: &DebianPackage, into: &Path) -> Result<()> {
        let dir = tempfile::tempdir_in(&self.dir)?;
        let mut download = Command::new("apt-get");
        download
            .args(["-q", "download", &package.pinned()])
            .env("APT_CONFIG", self.dir.join("apt.conf"))
            .current_dir(dir.path());
        stdout_of(&mut download).with_context(|| format!("cannot fetch {}", package.name))?;
        for file in fs::read_dir(dir.path())? {
            let mut unpack = Command::new("dpkg-deb");
            stdout_of(unpack.arg("-x").arg(file?.path()).arg(into))?;
        }
        Ok(())
    }
}

/// A package at a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebianPackage {
    /// Its name.
    pub name: String,
    /// Its version; empty for any.
    pub version: String,
}

impl DebianPackage {
    fn pinned(&self) -> String {
        match self.version.as_str() {
            "" => self.name.clone(),
            version => format!("{}={version}", self.name),
        }
    }
}

fn stdout_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot run {program}: is this a Debian?"))?;
    if !status.success() {
        let told = String::from_utf8_lossy(&stderr);
        bail!("{program} failed: {}", told.lines().last().unwrap_or("it did not say why"));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

fn settings(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "Dir::State \"{dir}/state\";\n\
         Dir::State::status \"{dir}/status\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\n\
         Dir::Etc::sourceparts \"{dir}/sources\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\n\
         APT::Architecture \"amd64\";\n\
         APT::Sandbox::User \"\";\n"
    )
}

fn sources(mirror: &str) -> String {
    format!(
        "Types: deb\nURIs: {mirror}\nSuites: {SUITES}\nComponents: main\n\
         Architectures: amd64\nTargets: Packages\nSigned-By: {KEYRING}\n"
    )
}

/// Returns the mirror of the host's own apt.
fn host_mirror() -> Result<String> {
    let format = "$(LABEL)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)";
    let listed = stdout_of(Command::new("apt-get").args([
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))?;
    mirror(&listed).context("this host's apt knows no Debian mirror: see sources.list(5)")
}

/// Returns the first mirror of Debian itself; labels are known only once the host has fetched its
/// lists.
fn mirror(listed: &str) -> Option<String> {
    let rows = listed.lines().filter_map(|line| {
        let fields: Vec<&str> = line.splitn(4, '|').collect();
        <[&str; 4]>::try_from(fields).ok()
    });
    let main = rows.filter(|row| row[2] == "main" && row[3].contains("://"));
    let plain = |release: &str| !release.contains('-') && !release.contains('/');
    let mut labelled = main.clone().filter(|row| row[0] == "Debian");
    let mut unlabelled = main.clone().filter(|row| row[0].is_empty() && plain(row[1]));
    labelled.next().or_else(|| unlabelled.next()).map(|row| row[3].to_owned())
}

/// Parses the `Depends` line of the first record; of alternatives it takes the first.
fn parse_depends(record: &str) -> Vec<DebianPackage> {
    let line = record.lines().find_map(|line| line.strip_prefix("Depends: "));
    line.unwrap_or_default().split(',').map(parse_dependency).collect()
}

/// Parses `name (= version)`, `name (>= version)`, `name | other`.
fn parse_dependency(text: &str) -> DebianPackage {
    let first = text.split('|').next().unwrap_or_default().trim();
    let (name, condition) = first.split_once(' ').unwrap_or((first, ""));
    let exact = condition.strip_prefix("(= ").and_then(|rest| rest.strip_suffix(')'));
    DebianPackage { name: name.to_owned(), version: exact.unwrap_or_default().to_owned() }
}

/// Returns the version and the suite of each line of `apt-cache madison`.
fn versions_and_suites(listed: &str) -> impl Iterator<Item = (&str, &str)> {
    listed.lines().filter_map(|line| {
        let mut fields = line.split('|').skip(1);
        let (version, origin) = (fields.next()?.trim(), fields.next()?);
        let suite = origin.split_whitespace().nth(1)?.split('/').next()?;
        Some((version, suite))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debians_own() {
        let listed = "Node Source|nodistro|main|https://one.example/node\n\
                      Debian-Security|bookworm-security|main|http://two.example/security\n\
                      Debian|bookworm|contrib|http://three.example/debian\n\
                      Debian|bookworm|main|http://four.example/debian/\n";
        assert_eq!(mirror(listed).as_deref(), Some("http://four.example/debian/"));
        let unfetched = "|bookworm-security|main|http://two.example/security\n\
                         |bookworm|main|http://four.example/debian/\n";
        assert_eq!(mirror(unfetched).as_deref(), Some("http://four.example/debian/"));
        assert_eq!(mirror("garbage\n|stable|main|cdrom:\n"), None);
    }

    #[test]
    fn dependencies_keep_exact_versions_only() {
        let record = "Package: linux-image-cloud-amd64\n\
            Depends: dracut | initramfs-tools (>= 0.120), linux-image-6.1 (= 6.1.176-1), plain\n\
            Depends: second record\n";
        let told: Vec<String> = parse_depends(record).iter().map(DebianPackage::pinned).collect();
        assert_eq!(told, ["dracut", "linux-image-6.1=6.1.176-1", "plain"]);
    }

    /// Goal: each version has its suite, and a line that is none is left out.
    #[test]
    fn versions_have_suites() {
        let listed = " busybox-static | 1:1.35.0-4 | http://one.example/debian bookworm/main amd64 \
                      Packages\n busybox-static | 1:1.30.1-6+b3 | http://one.example/debian \
                      bullseye/main amd64 Packages\nodd line\n";
        let told: Vec<_> = versions_and_suites(listed).collect();
        assert_eq!(told, [("1:1.35.0-4", "bookworm"), ("1:1.30.1-6+b3", "bullseye")]);
    }
}
