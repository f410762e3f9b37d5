//! The balancer's service unit and documentation.

use std::collections::BTreeSet;
use std::process::Command;

use nodeward_model::SkipReason;
use nodeward_policy::placement::Reason;

use crate::outcome::NODEWARD;

const UNIT: &str = include_str!("../../../../packaging/nodeward-balance.service");
const SOCKET: &str = include_str!("../../../../packaging/nodeward-balance.socket");
const SAMPLE: &str = include_str!("../../../../packaging/nodeward.toml");
const SETTINGS: &str = include_str!("../../../../docs/reference/settings.md");
const REASONS: &str = include_str!("../../../../docs/reference/reasons.md");

/// Returns the values of a key of the unit.
fn values(key: &str) -> Vec<&'static str> {
    let of = |line: &'static str| line.split_once('=').filter(|(name, _)| *name == key);
    UNIT.lines().filter_map(of).map(|(_, value)| value).collect()
}

/// Goal: the service has the privileges that it needs and no other, and can write only its state.
#[test]
fn the_service_has_little() {
    assert_eq!(values("CapabilityBoundingSet"), ["CAP_SYS_NICE CAP_SYS_PTRACE CAP_PERFMON"]);
    assert_eq!(values("NoNewPrivileges"), ["yes"]);
    assert_eq!(values("ProtectSystem"), ["strict"]);
    assert_eq!(values("StateDirectory"), ["nodeward"]);
    assert!(values("ReadWritePaths").is_empty());
    assert!(values("AmbientCapabilities").is_empty());
    assert_eq!(values("MemoryMax").len(), 1);
}

/// Goal: the service reports its state to systemd, and restarts only after failures that may go
/// away. Codes 2, 3 and 4 do not (invalid settings, another balancer, a missing privilege).
#[test]
fn the_service_is_kept_alive() {
    assert_eq!(values("Type"), ["notify"]);
    assert_eq!(values("Restart"), ["on-failure"]);
    assert_eq!(values("RestartPreventExitStatus"), ["2 3 4"]);
    assert_eq!(values("WatchdogSec").len(), 1);
    assert_eq!(values("ExecReload"), ["/bin/kill -HUP $MAINPID"]);
    let [start] = values("ExecStart")[..] else { panic!("one command") };
    let words: Vec<_> = start.split(' ').skip(1).collect();
    let help = Command::new(NODEWARD).args(&words).arg("--help").output();
    assert!(help.unwrap().status.success(), "{words:?}");
}

/// Goal: the socket unit listens where `--agent` looks, and the service keeps that directory.
#[test]
fn the_socket_is_where_clients_look() {
    let listen = format!("ListenStream={}\n", nodeward_agent::socket::DEFAULT_PATH);
    assert!(SOCKET.contains(&listen), "{SOCKET}");
    assert_eq!(values("RuntimeDirectory"), ["nodeward"]);
    assert_eq!(values("RuntimeDirectoryPreserve"), ["yes"]);
    assert_eq!(values("RestrictAddressFamilies"), ["AF_UNIX"]);
}

/// Goal: systemd accepts every line.
#[test]
fn systemd_understands_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodeward-balance.service");
    let here = UNIT.replace("/usr/local/bin/nodeward", NODEWARD);
    let without_manual = here.replace("Documentation=", "#");
    std::fs::write(&path, without_manual).unwrap();
    let socket = folder.path().join("nodeward-balance.socket");
    std::fs::write(&socket, SOCKET.replace("Documentation=", "#")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let Ok(output) = verify.arg("verify").args([&path, &socket]).output() else {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<_> = told.lines().filter(|line| line.contains("nodeward-balance")).collect();
    assert!(ours.is_empty(), "{told}");
}

/// Returns the words in the first column of all tables, where they are in backticks.
fn documented_keys(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let words = rows.flat_map(|(first, _)| first.split(['`', ',', ' ']));
    words.filter(|word| !word.is_empty()).collect()
}

/// Goal: the documentation has a line for each setting, and no others.
#[test]
fn every_setting_is_told_of() {
    let key = |line: &'static str| Some(line.split_once(" = ")?.0).filter(|k| !k.starts_with('#'));
    let (settings, _) = SETTINGS.split_once("\n## Groups").unwrap(); // which have no defaults
    assert_eq!(documented_keys(settings), SAMPLE.lines().filter_map(key).collect());
}

/// Goal: the documentation has a line for each reason, and no others.
#[test]
fn every_reason_is_told_of() {
    let pages = SkipReason::ALL.iter().map(|reason| reason.name());
    let homes = Reason::ALL.iter().map(|reason| reason.name());
    assert_eq!(documented_keys(REASONS), pages.chain(homes).collect());
}
