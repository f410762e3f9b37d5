//! `nodeward balance` and `nodeward spread` beside a PostgreSQL of the host (Debian's package),
//! which the guest runs.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nodeward_lab::{GuestFile, GuestKernel, LabMachine, is_every_kernel_wanted, scenario};
use tempfile::TempDir;

use guests::CaseGuest;

mod guests;
mod programs;

/// Each node has room for a segment of 1 GiB, the file's cache, and what the server needs.
const LARGE_NODE_BYTES: u64 = 4 << 30;

const TIMEOUT: Duration = Duration::from_secs(600);
/// Below these directories Debian's packages have one for each version.
const PROGRAMS: &str = "/usr/lib/postgresql";
const SHARED: &str = "/usr/share/postgresql";
/// The user that owns nothing. initdb refuses root, and needs a user who has a name.
const NOBODY: u32 = 65534;
/// A cluster for one user, of the host's whatever settings.
const INITDB: &str = "-U postgres --auth=trust --no-locale --encoding=UTF8 --no-sync \
    --wal-segsize=4 --data-checksums";

/// Returns the newest version that is installed.
fn version() -> Option<u32> {
    let entries = fs::read_dir(PROGRAMS).ok()?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| program(*number, "initdb").is_file()).max()
}

fn program(version: u32, name: &str) -> PathBuf {
    Path::new(PROGRAMS).join(version.to_string()).join("bin").join(name)
}

/// Creates a cluster.
fn initdb(version: u32) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program(version, "initdb"));
    if rustix::process::geteuid().is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may do that");
        command.uid(NOBODY).gid(NOBODY);
    }
    // The guest has no files of time zones.
    command.env("TZ", "GMT").current_dir("/").stdout(Stdio::null());
    command.arg("-D").arg(folder.path().join("data")).args(INITDB.split(' '));
    let status = command.status().expect("initdb starts");
    assert!(status.success(), "{status}");
    folder
}

/// Returns what a server and its clients need, at the places that are compiled in.
fn files(version: u32, data: &Path) -> Vec<GuestFile> {
    let at = |path: PathBuf| {
        let guest = path.to_str().map(str::to_owned);
        GuestFile { host: path, guest }
    };
    let programs = ["postgres", "psql", "pgbench"].map(|name| program(version, name));
    // The server does not start without the folder of its modules.
    let module = Path::new(PROGRAMS).join(version.to_string()).join("lib/plpgsql.so");
    let zones = Path::new(SHARED).join(version.to_string()).join("timezonesets");
    let guest = Some("/srv/postgres".to_owned());
    let data = GuestFile { host: data.to_owned(), guest };
    programs.into_iter().chain([module, zones]).map(at).chain([data]).collect()
}

/// A guest with a PostgreSQL, and its cluster on the host; `None` if there is none.
fn guest_with_postgres(machine: LabMachine) -> Option<(CaseGuest, TempDir)> {
    let Some(version) = version() else {
        println!("skipped: no {PROGRAMS}/VERSION/bin/initdb; apt install postgresql");
        return None;
    };
    let folder = initdb(version);
    let mut guest = CaseGuest::new(&GuestKernel::V6_12, machine);
    guest.timeout = TIMEOUT;
    guest.files = files(version, &folder.path().join("data"));
    Some((guest, folder))
}

#[test]
fn postgres_on_6_12() {
    let Some((mut guest, _folder)) = guest_with_postgres(scenario("two-nodes")) else { return };
    if is_every_kernel_wanted() {
        guest.env = vec![("POSTGRES_TIME".to_owned(), "8".to_owned())];
    }
    guest.run(&["balance_postgres"]);
}

/// `bench/run spread.` runs it with `SPREAD_TURNS`, maybe `SPREAD_MIB`, which the guest gets, too;
/// so one in `make test` is enough.
#[test]
fn spread_postgres_on_6_12() {
    let set = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    let sizes: Vec<_> = ["SPREAD_TURNS", "SPREAD_MIB"].into_iter().filter_map(set).collect();
    if sizes.is_empty() && !is_every_kernel_wanted() {
        println!("skipped: NODEWARD_TESTS=long runs it, and bench/run spread.even");
        return;
    }
    let mut machine = scenario("two-nodes");
    if set("SPREAD_MIB").is_some() {
        machine.nodes.iter_mut().for_each(|node| node.memory_bytes = LARGE_NODE_BYTES);
    }
    let Some((mut guest, _folder)) = guest_with_postgres(machine) else { return };
    guest.env = sizes;
    // Where CPUs take turns, each waits for the other.
    guest.parallel = !guest.env.is_empty();
    guest.run(&["spread_postgres"]);
}
