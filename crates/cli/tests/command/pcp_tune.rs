//! `pcp tune` and `pcp advise` as programs: a file stands in for the sysctl, mounted over it in a
//! mount namespace of its own, so that the kernel of this machine is left as it is. The depths are
//! those of this machine.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::balance_daemon::DaemonProcess;
use crate::outcome::{NODEWARD, assert_failure};

const SYSCTL: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
/// Periods of 2 s: on a busy machine it may choose something, and restores it.
const TUNE: &str = "pcp tune --anyway --json --interval 2s";

/// A file in place of the sysctl, and a directory for state.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Returns `None`, and says so, where nothing can be mounted, or depths cannot be counted.
    fn new(value: &str) -> Option<Self> {
        let mounted = Command::new("unshare")
            .args(["--mount", "mount", "--bind", SYSCTL, SYSCTL])
            .stderr(Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a mount namespace takes root, and the kernel {SYSCTL}");
            return None;
        }
        let counted = Command::new(NODEWARD).args(["pcp", "advise", "--for", "100ms"]).output();
        let counted = counted.unwrap();
        if !counted.status.success() {
            eprintln!("skipped: {}", String::from_utf8_lossy(&counted.stderr));
            assert!(matches!(counted.status.code(), Some(3 | 4)), "{counted:?}");
            return None;
        }
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::write(place.sysctl(), format!("{value}\n")).unwrap();
        Some(place)
    }

    fn sysctl(&self) -> PathBuf {
        self.dir.path().join("sysctl")
    }

    /// Returns the first line: the file keeps the end of a longer number, which a sysctl does not.
    fn value(&self) -> String {
        let text = std::fs::read_to_string(self.sysctl()).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    }

    /// Sets a value as others do: at no moment is there none.
    fn set(&self, value: &str) {
        let file = File::options().write(true).open(self.sysctl()).unwrap();
        file.write_all_at(format!("{value}\n").as_bytes(), 0).unwrap();
    }

    fn record(&self) -> PathBuf {
        self.dir.path().join("state/pcp.takeover")
    }

    /// Returns the command in a namespace where the file is the sysctl, after `prepare`.
    fn command_after(&self, prepare: &str, words: &str, state: &Path) -> Command {
        let script = format!("mount --bind \"$0\" {SYSCTL} && {prepare} && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(self.sysctl()).arg(NODEWARD);
        command.args(words.split_whitespace()).env("NODEWARD_STATE_DIR", state);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn command(&self, words: &str) -> Command {
        self.command_after("true", words, &self.dir.path().join("state"))
    }

    fn start(&self) -> DaemonProcess {
        let tuner = DaemonProcess::start(self.command(TUNE));
        tuner.round();
        tuner
    }
}

/// Goal: a period has the documented fields, of each CPU, too; at SIGTERM, at Ctrl-C and when the
/// terminal is closed the value is what it was, with no record left, whatever was chosen.
#[test]
fn a_tuner_ends_in_order() {
    for (value, signal) in [("0", Signal::TERM), ("300", Signal::INT), ("8", Signal::HUP)] {
        let Some(place) = Place::new(value) else { return };
        let tuner = DaemonProcess::start(place.command(TUNE));
        let round = tuner.round();
        assert_eq!((&round["schema"], &round["round"]), (&"nodeward.pcp-tune/1".into(), &1.into()));
        assert_eq!(
            (&round["acts"], round["original_fraction"].to_string()),
            (&true.into(), value.into())
        );
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let of_round = [
            "acts",
            "before_fraction",
            "chosen_fraction",
            "cpus",
            "decided_by",
            "elapsed_ns",
            "is_counted",
            "is_memory_short",
            "missed_events",
            "original_fraction",
            "page_bytes",
            "round",
            "schema",
            "stranded_pages",
        ];
        assert_eq!(keys(&round), of_round);
        let of_cpu = [
            "alloc_depth_pages",
            "allocated_pages",
            "cpu",
            "default_high_pages",
            "depth_pages",
            "drains",
            "free_depth_pages",
            "freed_pages",
            "refills",
            "wanted_high_pages",
        ];
        let cpus = round["cpus"].as_array().unwrap();
        assert!(!cpus.is_empty() && cpus.iter().all(|cpu| keys(cpu) == of_cpu), "{round}");
        tuner.signal(signal);
        let (code, told) = tuner.end();
        assert_eq!(code, Some(0), "{told}");
        assert_eq!((place.value().as_str(), place.record().exists()), (value, false));
    }
}

/// Goal: a second tuner, with a directory of its own, is refused with exit code 3; whoever sets the
/// value meanwhile ends the first, which leaves it and says so.
#[test]
fn two_of_us_and_others() {
    let Some(place) = Place::new("0") else { return };
    let first = place.start();
    let other = place.dir.path().join("other");
    let second = place.command_after("true", TUNE, &other).output().unwrap();
    let told = assert_failure("second", &second, 3, &["another process does that already"]);
    assert_eq!(told.lines().count(), 1, "{told}");
    // Again and again: a value that comes at the moment at which the tuner sets one is lost.
    let (code, told) = first.end_while(|| place.set("77"));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("somebody set vm.percpu_pagelist_high_fraction to 77"), "{told}");
    assert_eq!((place.value().as_str(), place.record().exists()), ("77", false));
}

/// Goal: a value that may not be written, as in a container, is refused with the remedy; a kernel
/// without BTF with what it lacks; neither leaves anything behind, and telling needs neither.
#[test]
fn what_is_missing_is_named() {
    let Some(place) = Place::new("0") else { return };
    let state = place.dir.path().join("state");
    let read_only = format!("mount -o remount,bind,ro {SYSCTL}");
    let refused = place.command_after(&read_only, TUNE, &state).output().unwrap();
    let told = assert_failure("read-only", &refused, 4, &["setting the length of page lists"]);
    assert!(told.contains("ProtectKernelTunables=no") || told.contains("on the host"), "{told}");
    let words = "pcp tune --dry-run --for 100ms";
    let dry = place.command_after(&read_only, words, &state).output().unwrap();
    assert_eq!(dry.status.code(), Some(0), "{dry:?}");
    let hidden = "mount -t tmpfs none /sys/kernel/btf";
    for words in [TUNE, "pcp advise --for 1s"] {
        let refused = place.command_after(hidden, words, &state).output().unwrap();
        assert_failure(words, &refused, 3, &["cannot be counted", "CONFIG_DEBUG_INFO_BTF"]);
    }
    assert_eq!((place.value().as_str(), place.record().exists()), ("0", false));
}

/// Goal: a kernel that tunes its lists itself is left alone unless somebody insists, and says so;
/// advice is of each CPU, with its documented fields. A length that somebody set is no default, and
/// that is said.
#[test]
fn telling_changes_nothing() {
    let Some(place) = Place::new("0") else { return };
    let shown = place.command("pcp show --json").output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    if shown["self_tuning"] == "active" {
        let told = place.command("pcp tune --for 100ms").output().unwrap();
        let stderr = String::from_utf8(told.stderr).unwrap();
        assert_eq!(told.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("tunes its page lists itself"), "{stderr}");
    }
    let chosen = Place::new("300").unwrap().command("pcp advise --for 100ms").output().unwrap();
    let said = String::from_utf8(chosen.stderr).unwrap();
    assert!(said.contains("is 300: the lengths that it gives count as the default"), "{said}");
    let advice = place.command("pcp advise --json --for 200ms").output().unwrap();
    let advice: Value = serde_json::from_slice(&advice.stdout).unwrap();
    assert_eq!(advice["schema"], "nodeward.pcp-advice/1");
    let cpus = advice["cpus"].as_array().unwrap();
    assert!(!cpus.is_empty() && cpus.iter().all(|cpu| cpu["saved_visits"].is_u64()), "{advice}");
    let restored = place.command("pcp restore").output().unwrap();
    let told = String::from_utf8(restored.stdout).unwrap();
    let expected = "there is nothing to restore: no tuner left a record in ";
    assert!(told.starts_with(expected), "{told}");
    let bounds = place.command("pcp tune --min-fraction 9 --max-fraction 8").output().unwrap();
    assert_failure("bounds", &bounds, 2, &["--min-fraction 9 is more than --max-fraction 8"]);
    let small = place.command("pcp advise --min-fraction 7").output().unwrap();
    assert_failure("small", &small, 2, &["--min-fraction"]);
    assert_eq!((place.value().as_str(), place.record().exists()), ("0", false));
}
