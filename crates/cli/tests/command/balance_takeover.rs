//! `balance --rivals take-over` as a program: a file stands in for the sysctl, mounted over it in a
//! mount namespace of its own, so that the kernel of this machine is left as it is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::balance_daemon::{DaemonProcess, command};

const SYSCTL: &str = "/proc/sys/kernel/numa_balancing";

/// A file in place of the sysctl, and a directory for state and settings.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Returns `None`, and says so, where nothing can be mounted.
    fn new(mode: &str) -> Option<Self> {
        let can_mount = Command::new("unshare")
            .args(["--mount", "mount", "--bind", SYSCTL, SYSCTL])
            .stderr(Stdio::null())
            .status();
        if !can_mount.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a mount namespace takes root, and the kernel {SYSCTL}");
            return None;
        }
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::write(place.sysctl(), format!("{mode}\n")).unwrap();
        Some(place)
    }

    fn sysctl(&self) -> PathBuf {
        self.dir.path().join("sysctl")
    }

    fn mode(&self) -> String {
        std::fs::read_to_string(self.sysctl()).unwrap().trim().to_owned()
    }

    fn record(&self) -> PathBuf {
        self.dir.path().join("state/balance.takeover")
    }

    fn write_settings(&self, rivals: &str) {
        let text = format!("[balance]\nrivals = '{rivals}'\n");
        std::fs::write(self.dir.path().join("config.toml"), text).unwrap();
    }

    /// Returns the daemon's command in a namespace where the file is the sysctl. Its settings are
    /// in the directory, its state below `state`.
    fn command(&self, state: &Path, mount_options: &str) -> Command {
        let daemon = command(self.dir.path());
        let script = format!(
            "mount --bind \"$0\" {SYSCTL} && mount -o remount,bind,{mount_options} {SYSCTL} \
             && exec \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(self.sysctl());
        command.arg(daemon.get_program()).args(daemon.get_args());
        command.env("NODEWARD_STATE_DIR", state);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self) -> DaemonProcess {
        DaemonProcess::start(self.command(&self.dir.path().join("state"), "rw"))
    }
}

fn end(daemon: DaemonProcess, signal: Signal) -> (Option<i32>, String) {
    daemon.signal(signal);
    daemon.end()
}

/// Goal: while it runs the kernel's balancing is off, and at SIGTERM and Ctrl-C it is what it was,
/// in each mode, with no record left.
#[test]
fn the_mode_comes_back_at_the_end() {
    for (mode, signal) in [("1", Signal::TERM), ("2", Signal::INT), ("3", Signal::TERM)] {
        let Some(place) = Place::new(mode) else { return };
        place.write_settings("take-over");
        let daemon = place.start();
        daemon.says(&format!("(kernel.numa_balancing was {mode})"));
        assert_eq!(daemon.round()["stands_back"], false);
        assert_eq!((place.mode().as_str(), place.record().exists()), ("0", true));
        let (code, told) = end(daemon, signal);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains(&format!("on again (kernel.numa_balancing={mode})")), "{told}");
        assert_eq!((place.mode().as_str(), place.record().exists()), (mode, false));
    }
}

/// Goal: after a kill -9 the next start restores the mode, whatever its own settings say.
#[test]
fn a_kill_is_made_good() {
    let Some(place) = Place::new("3") else { return };
    place.write_settings("take-over");
    let daemon = place.start();
    daemon.round();
    end(daemon, Signal::KILL);
    assert_eq!((place.mode().as_str(), place.record().exists()), ("0", true));
    place.write_settings("stand-back");
    let next = place.start();
    next.says("on again (kernel.numa_balancing=3)");
    assert_eq!(next.round()["stands_back"], true);
    assert_eq!((place.mode().as_str(), place.record().exists()), ("3", false));
    end(next, Signal::TERM);
    assert_eq!(place.mode(), "3");
}

/// Goal: SIGHUP takes over and gives back as the settings say now.
#[test]
fn settings_that_change_take_effect() {
    let Some(place) = Place::new("1") else { return };
    place.write_settings("stand-back");
    let daemon = place.start();
    assert_eq!(daemon.round()["stands_back"], true);
    for (rivals, mode, stands_back) in
        [("take-over", "0", false), ("cooperate", "1", false), ("take-over", "0", false)]
    {
        place.write_settings(rivals);
        daemon.signal(Signal::HUP);
        daemon.says("the settings were read again");
        assert_eq!(place.mode(), mode, "{rivals}");
        let round = daemon.round_with(|round| round["rival_mode"] == rivals);
        assert_eq!(round["stands_back"], stands_back, "{rivals}");
    }
    end(daemon, Signal::TERM);
    assert_eq!(place.mode(), "1");
}

/// Goal: what may not be written is left as it is, with exit code 4 and the remedy at the start; at
/// SIGHUP the old settings stay.
#[test]
fn what_may_not_be_written_is_told() {
    let Some(place) = Place::new("1") else { return };
    place.write_settings("take-over");
    let state = place.dir.path().join("state");
    let refused = place.command(&state, "ro").output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{told}");
    assert!(told.contains("ProtectKernelTunables=no") || told.contains("on the host"), "{told}");
    assert_eq!((place.mode().as_str(), place.record().exists()), ("1", false));
    place.write_settings("stand-back");
    let daemon = DaemonProcess::start(place.command(&state, "ro"));
    daemon.round();
    place.write_settings("take-over");
    daemon.signal(Signal::HUP);
    let told = daemon.line("the settings stay as they were");
    assert!(told.contains("not permitted"), "{told}");
    assert_eq!(daemon.round()["rival_mode"], "stand-back");
    assert_eq!(end(daemon, Signal::TERM).0, Some(0));
}

/// Goal: a second balancer with a directory of its own neither records nor restores anything; who
/// sets the sysctl meanwhile has the last word.
#[test]
fn two_of_us_and_others() {
    let Some(place) = Place::new("1") else { return };
    place.write_settings("take-over");
    let first = place.start();
    first.round();
    let other = place.dir.path().join("other");
    let second = DaemonProcess::start(place.command(&other, "rw"));
    second.round();
    assert!(!other.join("balance.takeover").exists());
    assert_eq!(end(second, Signal::TERM).0, Some(0));
    assert_eq!(place.mode(), "0");
    std::fs::write(place.sysctl(), "2\n").unwrap();
    let (_, told) = end(first, Signal::TERM);
    assert!(told.contains("somebody set kernel.numa_balancing=2 meanwhile"), "{told}");
    assert_eq!((place.mode().as_str(), place.record().exists()), ("2", false));
}

/// Goal: an old word of the setting acts as it did, and is reported once.
#[test]
fn the_old_word_is_reported_once() {
    let Some(place) = Place::new("1") else { return };
    place.write_settings("ignore");
    let daemon = place.start();
    daemon.says("balance.rivals = ignore is deprecated; use cooperate or take-over");
    let round = daemon.round();
    assert_eq!((&round["rival_mode"], &round["stands_back"]), (&"ignore".into(), &false.into()));
    daemon.signal(Signal::HUP);
    daemon.says("the settings were read again");
    let (_, told) = end(daemon, Signal::TERM);
    assert!(!told.contains("deprecated"), "{told}");
    assert_eq!(place.mode(), "1");
}
