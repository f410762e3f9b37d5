//! A balancer as a service, and programs that start at home.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::balancer::{Balance, Place, alone, load_away, named};
use crate::guest::{affinities, cpu_of, wait_until};
use crate::load::Load;
use crate::nodeward::finish;
use crate::{Body, Ran};

pub const CASES: [(&str, Body); 3] = [
    ("balance_of_two", of_two),
    ("balance_tells_systemd", tells_systemd),
    ("balance_run_at_home", run_at_home),
];

/// Goal: a second balancer is told which one is first, and ends; the first goes on. After the first
/// was killed, the next one may start.
fn of_two() -> Ran {
    alone()?;
    let place = Place::new("two");
    let load = load_away("--size 8MiB");
    let mut first = place.start(&named(&[&load]));
    first.round();
    let second = finish(&mut place.balance(&named(&[&load])));
    second.refused(3, &["a balancer runs already", &first.pid().to_string()]);
    assert_eq!(first.until_home(&load), 1);
    first.kill();
    let mut third = place.start(&named(&[&load]));
    assert_eq!(third.until_home(&load), 1);
    third.stop().well();
    load.done();
    Ok(())
}

/// Goal: systemd is notified as requested: ready, status, keep-alive, reload and end. Invalid
/// settings are reported with file, line and key, and change nothing.
fn tells_systemd() -> Ran {
    alone()?;
    let place = Place::new("systemd");
    let path = place.folder().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    let settings = place.folder().join("settings.toml");
    fs::write(&settings, "[balance]\nexcept-names = [\"nobody\"]\n").expect("settings");
    let mut command = place.command("--config");
    command.arg(&settings).args(["balance", "--quiet", "--json", "--interval", "200ms"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let mut balance = Balance::spawn(&mut command);
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
    balance.round();
    balance.signal(Signal::TERM);
    hear_until("STOPPING=1\n");
    balance.end().well();
    Ok(())
}

/// Goal: a program that `nodeward run` starts has its memory and its threads on the given node, and
/// may leave it only if it was not pinned.
fn run_at_home() -> Ran {
    for (words, may_run_on) in [("--pin", "1"), ("", "0-1")] {
        let load = Load::through(
            "nodeward",
            &format!("run --home 1 {words} -- nodeward-load --size 8MiB"),
        );
        let nodes = load.nodes_of_memory();
        // All of it: there is room.
        assert_eq!(nodes.keys().collect::<Vec<_>>(), [&1], "{nodes:?}");
        assert_eq!(affinities(load.pid()), [may_run_on.to_owned()].into());
        if words == "--pin" {
            assert_eq!(cpu_of(&load.other_thread()), 1);
        }
        load.done();
    }
    Ok(())
}
