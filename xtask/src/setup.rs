//! Installs what the checks use and this machine lacks, when it may; otherwise says what to
//! install.
//!
//! The lab fetches its kernels and its guest's tools itself; here are only programs for the host.
//! Nothing is asked from the network while every program is there. A machine that may not install
//! still builds and tests; what needs a missing program then reports that it was skipped.

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
    Need { program: "numactl", package: "numactl" },
    Need { program: "zstd", package: "zstd" },
    Need { program: "xz", package: "xz-utils" },
    Need { program: "cpio", package: "cpio" },
    Need { program: "mkfs.xfs", package: "xfsprogs" },
    Need { program: "c++", package: "g++" },
    Need { program: "pkg-config", package: "pkg-config" },
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
    let absent = NEEDS.iter().filter(|need| process::find(need.program).is_none());
    absent.map(|need| need.package).collect()
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
