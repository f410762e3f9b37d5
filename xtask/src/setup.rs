//! Installs the programs that the checks need and this machine lacks, if permitted; otherwise
//! reports them.
//!
//! The lab downloads its kernels and its guest's tools itself; this module handles only programs of
//! the host. If every program is present, the network is not used. A machine that may not install
//! still builds and tests; checks that need a missing program report that they were skipped.

use std::process::Command;

use anyhow::Result;

use crate::check_extent::CheckExtent;
use crate::process;

/// A program that the checks start, and its Debian package.
struct RequiredProgram {
    program: &'static str,
    package: &'static str,
}

const REQUIRED_PROGRAMS: &[RequiredProgram] = &[
    RequiredProgram { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    RequiredProgram { program: "numactl", package: "numactl" },
    RequiredProgram { program: "zstd", package: "zstd" },
    RequiredProgram { program: "xz", package: "xz-utils" },
    RequiredProgram { program: "cpio", package: "cpio" },
    RequiredProgram { program: "mkfs.xfs", package: "xfsprogs" },
    RequiredProgram { program: "c++", package: "g++" },
    RequiredProgram { program: "pkg-config", package: "pkg-config" },
    RequiredProgram { program: "mmdebstrap", package: "mmdebstrap" },
    RequiredProgram { program: "redis-check-rdb", package: "redis-tools" },
];

/// Programs that only `NODEWARD_TESTS=long` needs.
const REQUIRED_WHERE_ALL_IS_TESTED: &[RequiredProgram] = &[
    RequiredProgram { program: "clang-19", package: "clang-19" },
    RequiredProgram { program: "llvm-strip-19", package: "llvm-19" },
];

/// The way in which this user becomes root.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RootAccess {
    Root,
    Sudo,
    None,
}

/// Installs missing programs as far as permitted. Never fails because of permissions or the
/// network.
pub fn run() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        eprintln!("setup: every program is here");
        return Ok(());
    }
    let power = root_access();
    let by_hand = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if power == RootAccess::None || process::find("apt-get").is_none() {
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
    let long = match CheckExtent::from_environment() {
        CheckExtent::OneOfEach => &[],
        CheckExtent::All => REQUIRED_WHERE_ALL_IS_TESTED,
    };
    let required = REQUIRED_PROGRAMS.iter().chain(long);
    let absent = required.filter(|need| process::find(need.program).is_none());
    absent.map(|need| need.package).collect()
}

fn root_access() -> RootAccess {
    let user = process::stdout_of(Command::new("id").arg("-u")).unwrap_or_default();
    if user.trim() == "0" {
        RootAccess::Root
    } else if process::succeeds(Command::new("sudo").args(["-n", "true"])) {
        RootAccess::Sudo
    } else {
        RootAccess::None
    }
}

/// Installs packages; package lists are updated only if the first attempt does not know the
/// packages.
fn install(power: RootAccess, packages: &[&str]) -> Result<()> {
    let words = ["install", "--yes", "--no-install-recommends"];
    let install = || process::run(apt_get(power).args(words).args(packages));
    install().or_else(|_| {
        process::run(apt_get(power).arg("update"))?;
        install()
    })
}

fn apt_get(power: RootAccess) -> Command {
    let mut command = match power {
        RootAccess::Sudo => Command::new("sudo"),
        RootAccess::Root | RootAccess::None => Command::new("env"),
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    command
}
