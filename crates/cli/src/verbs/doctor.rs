//! `nodeward doctor`: what works here, what is missing, and the one line that fixes each.

use std::path::Path;

use nodeward_linux::probes::{Finding, Role, State, can_move, examine};
use nodeward_pager::{Capabilities, Road, Shortfall};

use crate::args::OutputArgs;
use crate::exit::Exit;
use crate::output::{self, doctor};

/// Examines this machine and prints the findings. Returns `Done` if everything works that a move
/// needs, else `NothingDone`.
pub fn run(args: OutputArgs) -> anyhow::Result<Exit> {
    let (text, exit) = verdict(args)?;
    output::print(&text).map(|()| exit)
}

fn verdict(args: OutputArgs) -> anyhow::Result<(String, Exit)> {
    let mut findings = examine(Path::new("/"));
    findings.push(pager());
    let text = match args.json {
        true => doctor::json(&findings)? + "\n",
        false => doctor::text(&findings),
    };
    Ok((text, if can_move(&findings) { Exit::Done } else { Exit::NothingDone }))
}

/// Returns the finding on how the pager moves managed memory of programs.
fn pager() -> Finding {
    let state = match Capabilities::probe() {
        Err(error) => State::Unknown { why: error.to_string() },
        Ok(found) => road(found.road(false), found.road(true), found.shortfall(false)),
    };
    let matters = "programs whose memory is managed migrate it faster";
    Finding { check: "pager", role: Role::Helps, matters, state }
}

/// Returns the state of the pager's method. `daring` is the method for a program that promises to
/// pass no managed memory to a system call.
fn road(road: Road, daring: Road, shortfall: Option<Shortfall>) -> State {
    let seen = match daring == road {
        true => format!("moves pages by {}", means(road)),
        false => {
            format!("moves pages by {} (with assume_no_syscalls: {})", means(road), means(daring))
        }
    };
    match shortfall {
        None => State::Works(seen),
        Some(Shortfall { why, fix }) => State::Missing { why: format!("{seen}: {why}"), fix },
    }
}

fn means(road: Road) -> &'static str {
    match road {
        Road::Move => "UFFDIO_MOVE",
        Road::Remap => "MREMAP_DONTUNMAP and UFFDIO_COPY, where no device works on them",
        Road::Kernel => "move_pages(2)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the pager's method is reported, with the one that a program could opt into, and the
    /// remedy.
    #[test]
    fn the_road_of_the_pager_is_told() {
        let shortfall = || Some(Shortfall { why: "too dark".into(), fix: "switch it on".into() });
        let state = road(Road::Kernel, Road::Move, shortfall());
        let seen = "moves pages by move_pages(2) (with assume_no_syscalls: UFFDIO_MOVE): too dark";
        assert_eq!((state.name(), state.seen()), ("missing", seen));
        assert_eq!(state.fix(), Some("switch it on"));
        let state = road(Road::Move, Road::Move, None);
        assert_eq!((state.name(), state.seen()), ("ok", "moves pages by UFFDIO_MOVE"));
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
