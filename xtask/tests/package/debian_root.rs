//! A Debian of its own in a directory, as debootstrap would make it, whose programs run in
//! namespaces of their own.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Directories of the kernel, and logs, caches and records of the package manager.
const NOT_OURS: [&str; 8] = [
    "./proc/",
    "./sys/",
    "./dev/",
    "./tmp/",
    "./var/log/",
    "./var/cache/",
    "./var/lib/apt/",
    "./var/lib/dpkg/",
];

/// Copies of files that shadow's programs make before they change them.
const BACKUPS: [&str; 4] = ["./etc/group-", "./etc/gshadow-", "./etc/passwd-", "./etc/shadow-"];

/// A Debian; it is removed when dropped.
pub struct DebianRoot(TempDir);

/// Whether minutes may be spent here on a Debian root; says what is skipped where not.
pub fn may_make_roots() -> bool {
    let why = if env::var_os("NODEWARD_TESTS").is_none_or(|value| value != "long") {
        "takes minutes; NODEWARD_TESTS=long runs it"
    } else if !rustix::process::geteuid().is_root() {
        "only root can make a Debian root"
    } else {
        return true;
    };
    eprintln!("skipped: {why}");
    false
}

/// The release of this host, whose C library the package is linked with.
fn suite() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.expect("/etc/os-release names a Debian release").to_owned()
}

impl DebianRoot {
    /// Makes the smallest Debian that has a package manager, and these packages.
    pub fn make(packages: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=minbase", "--mode=root"]);
        if !packages.is_empty() {
            mmdebstrap.arg(format!("--include={}", packages.join(",")));
        }
        text(mmdebstrap.arg(suite()).arg(dir.path()));
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a line of a shell in it. Its processes end with it.
    pub fn run(&self, line: &str) -> Output {
        let enter = "mount -t proc proc \"$0/proc\" && mount --rbind /sys \"$0/sys\" && \
                     exec chroot \"$0\" sh -c \"$1\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter]);
        unshare.arg(self.path()).arg(line).env("DEBIAN_FRONTEND", "noninteractive");
        output(unshare.env("LC_ALL", "C.UTF-8"))
    }

    /// Runs a line that must succeed, and returns its output.
    pub fn text(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "`{line}` ended with {output:#?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Copies packages to its /tmp, and installs them or upgrades to them.
    pub fn install(&self, debs: &[PathBuf]) -> String {
        let mut names = Vec::new();
        for deb in debs {
            let name = Path::new("/tmp").join(deb.file_name().unwrap());
            fs::copy(deb, self.path().join(name.strip_prefix("/").unwrap())).unwrap();
            names.push(name.display().to_string());
        }
        self.text(&format!("dpkg --install {} 2>&1", names.join(" ")))
    }

    /// Returns all files but those of the kernel and the package manager.
    pub fn files(&self) -> BTreeSet<String> {
        let mut find = Command::new("find");
        let all = text(find.current_dir(self.path()).args([".", "-xdev"]));
        let is_ours = |file: &&str| {
            !NOT_OURS.iter().any(|dir| file.starts_with(dir)) && !BACKUPS.contains(file)
        };
        all.lines().filter(is_ours).map(str::to_owned).collect()
    }
}

/// Returns the package that `NODEWARD_PACKAGE` names, or builds one as `make deb` does.
pub fn package() -> PathBuf {
    env::var_os("NODEWARD_PACKAGE").map_or_else(build, PathBuf::from)
}

fn build() -> PathBuf {
    let told = text(Command::new(env!("CARGO_BIN_EXE_xtask")).arg("deb"));
    told.lines().last().expect("the path is the last line").into()
}

/// Returns the same package with a higher version.
pub fn newer(deb: &Path, dir: &Path) -> PathBuf {
    let tree = dir.join("newer");
    text(Command::new("dpkg-deb").arg("--raw-extract").arg(deb).arg(&tree));
    let control = tree.join("DEBIAN/control");
    let fields = fs::read_to_string(&control).unwrap();
    let version = fields.lines().find(|line| line.starts_with("Version: ")).unwrap();
    fs::write(&control, fields.replace(version, &format!("{version}+newer"))).unwrap();
    let to = dir.join("nodeward_newer.deb");
    let mut pack = Command::new("dpkg-deb");
    // It is unpacked once, so it is not worth much compression.
    text(pack.args(["--root-owner-group", "-Zgzip", "-z1", "--build"]).arg(&tree).arg(&to));
    to
}

/// Downloads packages of this host's archive.
pub fn download(packages: &[&str], into: &Path) -> Vec<PathBuf> {
    text(Command::new("apt-get").arg("download").args(packages).current_dir(into));
    let entries = fs::read_dir(into).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect()
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns its stdout.
pub fn text(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?} ended with {output:#?}");
    String::from_utf8(output.stdout).unwrap()
}
