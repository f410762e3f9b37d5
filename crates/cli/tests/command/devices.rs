//! Devices in the place of nodes. This machine may have none that tells its node; made-up trees are
//! in the unit tests.

use crate::outcome::{assert_failure, run_simulated as run};

/// Goal: a device that is not there, and what is none, is refused by each verb with the argument,
/// before anything is done.
#[test]
fn what_is_not_there() {
    let pid = std::process::id();
    let missing = |name: &str| format!("{name} is 'netdev:nowhere': there is no device");
    for (words, told) in [
        (format!("move {pid} netdev:nowhere 0"), missing("FROM")),
        (format!("move {pid} 0 netdev:nowhere"), missing("TO")),
        (format!("move {pid} netdev:nowhere --addresses /dev/null"), missing("TO")),
        ("move --file /etc/passwd netdev:nowhere".to_owned(), missing("TO")),
        (format!("spread {pid} netdev:nowhere"), missing("NODES")),
        ("evacuate netdev:nowhere".to_owned(), missing("NODES")),
        ("evacuate 0 netdev:nowhere".to_owned(), missing("TO")),
        (format!("move {pid} 0 near:gpu:4095"), "'near:gpu:4095': there is no device".to_owned()),
        (format!("move {pid} 0 gpu:first"), "'gpu:first' is no device: give".to_owned()),
        (format!("move {pid} 0 0,pci:00:1f.2"), "'0,pci:00:1f.2' is no device".to_owned()),
    ] {
        let output = run(&words);
        let stderr = assert_failure(&words, &output, 2, &[&told]);
        assert_eq!((stderr.lines().count(), output.stdout.len()), (1, 0), "{words}: {stderr}");
    }
}

/// Goal: a simulated machine has no devices, also none of this machine's.
#[test]
fn not_on_a_simulated_machine() {
    for words in ["move 1000 1 gpu:0", "spread 1000 near:netdev:lo", "evacuate file:/etc/passwd"] {
        let words = format!("{words} --machine sim:two-socket");
        let told = "a simulated machine has no devices; nodes here are 0-1";
        assert_failure(&words, &run(&words), 2, &[told]);
    }
}
