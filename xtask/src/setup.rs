//! Installs what the checks use and this machine lacks, when it may; otherwise says what to install.
//!
//! Nothing is asked from the network while every program is there. A machine that may not install
//! still builds and tests; what needs a missing program then reports that it was skipped.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process;

/// A program that the checks start, and the Debian package that brings it.
struct Need {
    program: &'static str,
    package: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Need { program: "busybox", package: "busybox-static" },
    Need { program: "numactl", package: "numactl" },
    Need { program: "zstd", package: "zstd" },
    Need { program: "xz", package: "xz-utils" },
    Need { program: "cpio", package: "cpio" },
    Need { program: "dpkg-deb", package: "dpkg" },
];

/// How this user becomes root.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Power {
    Root,
    Sudo,
    None,
}

/// Brings the machine into shape as far as it may. Never fails for want of permission or network.
pub fn run() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        eprintln!("setup: every program is here");
        return Ok(());
    }
    let power = power();
    let by_hand = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if power == Power::None || process::find("apt-get").is_none() {
        eprintln!("setup: may not install here. To run every check, have root run: {by_hand}");
        return Ok(());
    }
    if let Err(error) = install(power, &missing) {
        eprintln!("setup: {error:#}");
        eprintln!("setup: going on without; what needs them will be skipped. By hand: {by_hand}");
    }
    Ok(())
}

fn missing() -> Vec<&'static str> {
    NEEDS.iter().filter(|need| !is_here(need)).map(|need| need.package).collect()
}

fn is_here(need: &Need) -> bool {
    process::find(need.program).is_some_and(|path| need.program != "busybox" || is_static(&path))
}

/// A static program names no loader. Debian has a shared busybox too, of no use in a bare guest.
fn is_static(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| !bytes.windows(7).take(4096).any(|w| w == b"/ld-lin"))
}

fn power() -> Power {
    let user = process::read(Command::new("id").arg("-u")).unwrap_or_default();
    if user.trim() == "0" {
        Power::Root
    } else if process::succeeds(Command::new("sudo").args(["-n", "true"])) {
        Power::Sudo
    } else {
        Power::None
    }
}

/// Installs; the package lists are fetched only if the first try does not know the packages.
fn install(power: Power, packages: &[&str]) -> Result<()> {
    let words = ["install", "--yes", "--no-install-recommends"];
    let install = || process::run(apt_get(power).args(words).args(packages));
    install().or_else(|_| {
        process::run(apt_get(power).arg("update"))?;
        install()
    })
}

fn apt_get(power: Power) -> Command {
    let mut command = match power {
        Power::Sudo => Command::new("sudo"),
        Power::Root | Power::None => Command::new("env"),
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_names_a_loader_is_not_static() {
        let dir = std::env::temp_dir().join(format!("xtask-static-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (shared, whole) = (dir.join("shared"), dir.join("whole"));
        fs::write(&shared, b"\x7fELF..../lib64/ld-linux-x86-64.so.2\0").unwrap();
        fs::write(&whole, b"\x7fELF and nothing else").unwrap();
        assert!(!is_static(&shared));
        assert!(is_static(&whole));
        assert!(!is_static(&dir.join("absent")));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn every_need_names_a_package_once() {
        let mut packages: Vec<_> = NEEDS.iter().map(|need| need.package).collect();
        packages.sort_unstable();
        packages.dedup();
        assert_eq!(packages.len(), NEEDS.len());
    }
}
