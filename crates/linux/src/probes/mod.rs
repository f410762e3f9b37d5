//! Finds out by trying what works on this machine, for `nodeward doctor`.

mod calls;
mod check_result;
mod environment;

use std::path::Path;

use crate::confinement::Confinement;

pub use check_result::{CheckResult, CheckState, Role};

/// Runs all checks, with files under `root` (normally `/`). The system calls are made in any case.
/// Changes nothing. Cost: some milliseconds.
pub fn check_all(root: &Path) -> Vec<CheckResult> {
    let situation = Confinement::detect(root);
    let mut findings = calls::check_calls(root, &situation);
    findings.extend(environment::check_environment(root, &situation));
    findings
}

/// Returns true if everything that a move needs works.
pub fn can_move(findings: &[CheckResult]) -> bool {
    let needed = findings.iter().filter(|finding| finding.role == Role::Needed);
    needed.map(|finding| &finding.state).all(|state| matches!(state, CheckState::Works(_)))
}
