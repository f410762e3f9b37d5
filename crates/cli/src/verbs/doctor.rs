//! `nodeward doctor`: what works here, what is missing, and the one line that fixes each.

use std::io::Write;
use std::path::Path;

use nodeward_linux::probes::{can_move, examine};

use crate::args::OutputArgs;
use crate::exit::Exit;
use crate::output::doctor;

/// Examines this machine and prints what it found. `Done` if everything works that a move needs,
/// `NothingDone` otherwise.
pub fn run(args: OutputArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let findings = examine(Path::new("/"));
    let text = match args.json {
        true => doctor::json(&findings)? + "\n",
        false => doctor::text(&findings),
    };
    out.write_all(text.as_bytes())?;
    Ok(if can_move(&findings) { Exit::Done } else { Exit::NothingDone })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: on whatever machine this runs, both forms tell the same verdict as the exit code.
    #[test]
    fn the_exit_code_is_the_verdict() {
        for json in [false, true] {
            let mut out = Vec::new();
            let exit = run(OutputArgs { json }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let says_yes =
                text.contains("Pages can be moved here") || text.contains("\"can_move\": true");
            assert_eq!(says_yes, exit == Exit::Done, "{text}");
        }
    }
}
