//! `config print`, and errors in settings, as users see them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::outcome::NODEWARD;

fn run(words: &[&str], text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(NODEWARD);
    command.args(words).env("NODEWARD_CONFIG", &path).env("NODEWARD_MOVE_RATE", "1GB/s");
    command.output().unwrap()
}

fn printed(words: &[&str], text: &str) -> String {
    let output = run(&[&["config", "print"], words].concat(), text);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Goal: each value in effect is printed with its origin.
#[test]
fn values_and_origins() {
    let text = "[balance]\n\nhorizon = \"5s\"\n";
    let told = printed(&["balance.pin=true"], text);
    let lines = told.lines().filter_map(|line| line.split_once('#'));
    let place = |line: (&str, &str)| {
        let origin = line.1.trim().rsplit('/').next().unwrap_or_default().to_owned();
        (line.0.trim().to_owned(), origin)
    };
    let settings: Vec<_> = lines.map(place).collect();
    for (setting, origin) in [
        ("rate = \"1GB/s\"", "$NODEWARD_MOVE_RATE"),
        ("horizon = \"5s\"", "my.toml, line 3"),
        ("pin = \"true\"", "typed"),
    ] {
        let expected = (setting.to_owned(), origin.to_owned());
        assert!(settings.contains(&expected), "{expected:?} is not in {told}");
    }
    let all = printed(&["--effective", "--json"], text);
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let mut settings = all["settings"].as_array().unwrap().iter();
    let interval = settings.find(|said| said["key"] == "balance.interval").unwrap();
    assert_eq!(interval["value"], "1s");
}

/// Goal: an error in settings ends with code 2, and names file, line and key, whichever verb reads
/// it.
#[test]
fn what_is_wrong_is_told() {
    let us = std::process::id().to_string();
    for words in [
        &["config", "print"][..],
        &["balance", "--once"],
        &["explain", &us],
        &["move", &us, "0", "0", "--dry-run"],
    ] {
        let output = run(words, "[move]\njobs = 2\n[balance]\nbudgt = \"1GB/s\"\n");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        for word in ["my.toml", "line 4", "balance.budgt", "`budget`"] {
            assert!(told.contains(word), "{words:?}: '{word}' is missing in: {told}");
        }
    }
    let output = run(&["config", "print", "balance.horizon=soon"], "");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("'balance.horizon=soon' is wrong"), "{told}");
}

/// Goal: the settings of a user that he may not read do not count as absent: each command says so,
/// and `config print` does. (Root reads all files, so here another user asks, if we are root.)
#[test]
fn settings_that_may_not_be_read_are_told() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/nodeward");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    std::fs::write(&file, "[move]\nstall = \"1ms\"\n").unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(home.path(), 0o755);
    mode(&file, 0o000);
    let mut command = Command::new(NODEWARD);
    command.args(["config", "print"]).env_clear().env("HOME", home.path());
    if std::fs::read(&file).is_ok() {
        command.uid(65534).gid(65534);
    }
    let Ok(output) = command.output() else {
        println!("skipped: another user may not run the program here");
        return;
    };
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(stdout.contains("config.toml: may not be read"), "{stdout}");
    assert!(
        stderr.contains("config.toml may not be read, so its settings do not hold"),
        "{stderr}"
    );
    assert_eq!((stderr.lines().count(), output.status.code()), (1, Some(0)), "{stderr}");
}
