//! The exporter as a command: its addresses, its unit, and its metrics beside a balancer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nodeward_linux::test_wait::{TIMEOUT, wait_until};

use crate::agent::Place;
use crate::outcome::{NODEWARD, assert_failure};

const UNIT: &str = include_str!("../../../../packaging/nodeward-export.service");

fn export(listen: &str) -> Command {
    let mut command = Command::new(NODEWARD);
    command.args(["export", "--listen", listen]);
    command
}

/// Goal: what is no address is refused with one that is; one that this machine has not, or that is
/// in use, with what to choose instead. Each is one line, and has its code.
#[test]
fn addresses_are_checked() {
    for wrong in ["", "9917", ":9917", "localhost:9917", "127.0.0.1", "127.0.0.1:99999", "::1:1"] {
        let refused = export(wrong).output().unwrap();
        assert_failure(wrong, &refused, 2, &["is no address with a port", "127.0.0.1:9917"]);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = listener.local_addr().unwrap().to_string();
    for (address, code, words) in [
        (in_use.as_str(), 3, "another program listens at 127.0.0.1:"),
        ("192.0.2.1:9917", 2, "choose an address of this machine"),
    ] {
        let refused = export(address).output().unwrap();
        let told = assert_failure(address, &refused, code, &[words]);
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// An exporter that runs.
struct RunningExporter {
    child: Child,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl RunningExporter {
    fn start(place: &Place) -> Self {
        let mut command = export("127.0.0.1:0");
        command.arg("--agent").arg(place.socket()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("nodeward: metrics are at http://");
        let address = address.and_then(|it| it.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, stderr }
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    }
}

impl Drop for RunningExporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Goal: beside a balancer its rounds are told; after that was killed the exporter goes on, and
/// says in its metrics and in one line that nobody answers.
#[test]
fn metrics_of_a_balancer_are_handed_out() {
    let mut place = Place::start();
    place.daemon.round_with(|round| round["round"].as_u64() >= Some(2));
    let mut exporter = RunningExporter::start(&place);
    let told = exporter.metrics();
    for line in
        ["\nnodeward_up 1\n", "\nnodeward_rounds_total{kind=\"full\"} ", "cpu_seconds_total"]
    {
        assert!(told.contains(line), "no {line}: {told}");
    }
    place.daemon.kill();
    wait_until("it is missed", || exporter.metrics().contains("\nnodeward_up 0\n"));
    assert!(exporter.child.try_wait().unwrap().is_none(), "it has ended");
    let mut line = String::new();
    exporter.stderr.read_line(&mut line).unwrap();
    assert!(line.contains("no agent answers at"), "{line}");
    place.restart();
    wait_until("it is found again", || exporter.metrics().contains("\nnodeward_up 1\n"));
}

/// Goal: the unit of the exporter has a user of its own, no capability, and starts a command that
/// there is; systemd accepts every line.
#[test]
fn the_unit_has_no_privileges() {
    for line in ["DynamicUser=yes", "CapabilityBoundingSet=", "NoNewPrivileges=yes"] {
        assert!(UNIT.lines().any(|it| it == line), "no {line}");
    }
    let start = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<_> = start.split(' ').skip(1).collect();
    let help = Command::new(NODEWARD).args(&words).arg("--help").output().unwrap();
    assert!(help.status.success(), "{words:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodeward-export.service");
    let here = UNIT.replace("/usr/local/bin/nodeward", NODEWARD).replace("Documentation=", "#");
    std::fs::write(&path, here).unwrap();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("nodeward-export"), "{told}");
}
