//! Memory of a pager, used by every means that programs have, while all of it moves.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::kinds_special::ZramSwap;
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::disk::Disk;

pub const CASES: [(&str, CaseFn); 1] = [("torture", torture)];

/// Minimum number of steps of each thread, however slow the guest is.
const STEPS: &str = "1";

/// Variables that set options of the program.
const OPTIONS: [(&str, &str); 3] =
    [("TORTURE_TIME", "--for"), ("TORTURE_PATIENCE", "--patience"), ("TORTURE_SEED", "--seed")];

/// Goal: no write is lost, no read torn, and no thread stalls, whatever a program does with memory
/// that moves and whatever the machine does meanwhile; all means have had their turns.
fn torture() -> CaseOutcome {
    let swap = ZramSwap::on()?;
    let disk = Disk::ext4()?;
    let mut command = Command::new("nodeward-torture");
    command.args(["--whole-machine", "--steps", STEPS, "--dir", &disk.path("")]);
    for (variable, option) in OPTIONS {
        command
            .args(std::env::var(variable).into_iter().flat_map(|text| [option.to_owned(), text]));
    }
    let output = command.stderr(Stdio::inherit()).output().expect("nodeward-torture starts");
    let line = String::from_utf8_lossy(&output.stdout);
    println!("{}", line.trim());
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_str(&line).expect("one line of JSON");
    assert_eq!(report["skipped_means"], serde_json::json!({}), "all of it can be had in the lab");
    let steps = report["steps"].as_object().expect("steps by means");
    let idle: Vec<_> = steps.iter().filter(|(_, steps)| steps.as_u64() == Some(0)).collect();
    assert!(!steps.is_empty() && idle.is_empty(), "no step of {idle:?}");
    assert!(report["moved_pages"].as_u64() > Some(0), "something moved");
    swap.off();
    Ok(())
}
