//! `nodeward doctor`: what works here, what is missing, and the one line that fixes each.

use std::path::Path;

use nodeward_linux::Linux;
use nodeward_linux::probes::{CheckResult, CheckState, Role, can_move, check_all};
use nodeward_machine::Machine as _;
use nodeward_pager::{Backend, Shortfall, UffdCapabilities};

use crate::args::OutputArgs;
use crate::message::exit::Exit;
use crate::output::doctor::{self, DoctorFindings};
use crate::output::print;

/// Examines this machine and prints the findings. Returns `Done` if everything works that a move
/// needs, else `NothingDone`.
pub fn run(args: OutputArgs) -> anyhow::Result<Exit> {
    let (text, exit) = verdict(args)?;
    print(&text).map(|()| exit)
}

fn verdict(args: OutputArgs) -> anyhow::Result<(String, Exit)> {
    let findings = findings();
    let text = match args.json {
        true => doctor::json(&findings)? + "\n",
        false => doctor::text(&findings),
    };
    Ok((text, if can_move(&findings.checks) { Exit::Done } else { Exit::NothingDone }))
}

/// Examines this machine.
pub fn findings() -> DoctorFindings {
    let mut checks = check_all(Path::new("/"));
    checks.push(pager());
    DoctorFindings { checks, access_sources: Linux::open().access_sources() }
}

/// Returns the finding on how the pager moves managed memory of programs.
fn pager() -> CheckResult {
    let state = match UffdCapabilities::probe() {
        Err(error) => CheckState::Unknown { reason: error.to_string() },
        Ok(found) => {
            backend_state(found.backend(false), found.backend(true), found.shortfall(false))
        }
    };
    let matters = "programs whose memory is managed migrate it faster";
    CheckResult { check: "pager", role: Role::Helps, relevance: matters, state }
}

/// Returns the state of the pager's method. `daring` is the method for a program that promises to
/// pass no managed memory to a system call.
fn backend_state(backend: Backend, daring: Backend, shortfall: Option<Shortfall>) -> CheckState {
    let seen = match daring == backend {
        true => format!("moves pages by {}", backend_name(backend)),
        false => {
            format!(
                "moves pages by {} (with assume_no_syscalls: {})",
                backend_name(backend),
                backend_name(daring)
            )
        }
    };
    match shortfall {
        None => CheckState::Works(seen),
        Some(Shortfall { reason: why, remedy: fix }) => {
            CheckState::Missing { reason: format!("{seen}: {why}"), fix }
        }
    }
}

fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Move => "UFFDIO_MOVE",
        Backend::Remap => "MREMAP_DONTUNMAP and UFFDIO_COPY, where no device works on them",
        Backend::Kernel => "move_pages(2)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the pager's method is reported, with the one that a program could opt into, and the
    /// remedy.
    #[test]
    fn the_road_of_the_pager_is_told() {
        let shortfall =
            || Some(Shortfall { reason: "too dark".into(), remedy: "switch it on".into() });
        let state = backend_state(Backend::Kernel, Backend::Move, shortfall());
        let seen = "moves pages by move_pages(2) (with assume_no_syscalls: UFFDIO_MOVE): too dark";
        assert_eq!((state.name(), state.observation()), ("missing", seen));
        assert_eq!(state.fix(), Some("switch it on"));
        let state = backend_state(Backend::Move, Backend::Move, None);
        assert_eq!((state.name(), state.observation()), ("ok", "moves pages by UFFDIO_MOVE"));
        assert_eq!(pager().check, "pager");
    }

    /// Goal: on whatever machine this runs, both forms give the same verdict as the exit code.
    #[test]
    fn the_exit_code_is_the_verdict() {
        for json in [false, true] {
            let (text, exit) = verdict(OutputArgs { json }).unwrap();
            let says_yes =
                text.contains("Pages can be moved here") || text.contains("\"can_move\": true");
            assert_eq!(says_yes, exit == Exit::Done, "{text}");
        }
    }
}
