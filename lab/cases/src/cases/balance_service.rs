//! A balancer as a service, and programs that start at home.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::balancer::{
    BalancerProcess, StateDir, disable_numa_balancing, pid_options, start_load_away,
};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{affinities, last_cpu, wait_until};
use crate::load::LoadProcess;
use crate::nodeward::run_command;

pub const CASES: [(&str, CaseFn); 3] = [
    ("balance_of_two", of_two),
    ("balance_tells_systemd", tells_systemd),
    ("balance_run_at_home", run_at_home),
];

/// Goal: a second balancer is told which one is first, and ends; the first goes on. After the first
/// was killed, the next one may start.
fn of_two() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("two");
    let load = start_load_away("--size 8MiB");
    let mut first = place.start(&pid_options(&[&load]));
    first.next_round();
    let second = run_command(&mut place.balance(&pid_options(&[&load])));
    second.assert_refused(3, &["a balancer runs already", &first.pid().to_string()]);
    assert_eq!(first.wait_until_home(&load), 1);
    first.kill();
    let mut third = place.start(&pid_options(&[&load]));
    assert_eq!(third.wait_until_home(&load), 1);
    third.stop().assert_success();
    load.end();
    Ok(())
}

/// Goal: systemd is notified as requested: ready, status, keep-alive, reload and end. Invalid
/// settings are reported with file, line and key, and change nothing.
fn tells_systemd() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("systemd");
    let path = place.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    let settings = place.path().join("settings.toml");
    fs::write(&settings, "[balance]\nexcept-names = [\"nobody\"]\n").expect("settings");
    let mut command = place.command("--config");
    command.arg(&settings).args(["balance", "--quiet", "--json", "--interval", "200ms"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let mut balance = BalancerProcess::spawn(&mut command);
    let mut heard = String::new();
    let mut hear_until = |words: &str| {
        let from = heard.len();
        while !heard[from..].contains(words) {
            let mut bytes = [0; 1000];
            let length =
                socket.recv(&mut bytes).unwrap_or_else(|e| panic!("{words}: {e}: {heard}"));
            heard += &String::from_utf8_lossy(&bytes[..length]);
        }
    };
    hear_until("READY=1\n");
    hear_until("STATUS=");
    hear_until("WATCHDOG=1\n");
    balance.signal(Signal::HUP);
    hear_until("RELOADING=1\nMONOTONIC_USEC=");
    hear_until("READY=1\n");
    fs::write(&settings, "[balance]\ninterval = \"1s\"\nhorizont = \"1s\"\n").expect("settings");
    balance.signal(Signal::HUP);
    hear_until("RELOADING=1\n");
    hear_until("READY=1\n");
    let words = ["the settings were read again", "stay as they were", "settings.toml", "horizont"];
    wait_until("the mistake is told, where and what it is", || {
        let told = balance.stderr();
        words.iter().all(|words| told.contains(words)) && told.contains("line 3")
    });
    balance.next_round();
    balance.signal(Signal::TERM);
    hear_until("STOPPING=1\n");
    balance.end().assert_success();
    Ok(())
}

/// Goal: a program that `nodeward run` starts has its memory and its threads on the given node, and
/// may leave it only if it was not pinned.
fn run_at_home() -> CaseOutcome {
    for (words, may_run_on) in [("--pin", "1"), ("", "0-1")] {
        let load = LoadProcess::start_through(
            "nodeward",
            &format!("run --home 1 {words} -- nodeward-load --size 8MiB"),
        );
        let nodes = load.memory_by_node();
        // All of it: there is room.
        assert_eq!(nodes.keys().collect::<Vec<_>>(), [&1], "{nodes:?}");
        assert_eq!(affinities(load.pid()), [may_run_on.to_owned()].into());
        if words == "--pin" {
            assert_eq!(last_cpu(&load.other_thread()), 1);
        }
        load.end();
    }
    Ok(())
}
