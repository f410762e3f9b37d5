//! `nodeward doctor`: what works here, what is missing, and the one line that fixes each.

use std::io::Write;
use std::path::Path;

use nodeward_linux::probes::{can_move, examine};

use crate::exit::Exit;
use crate::output::doctor;

/// Arguments of the verb.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Examines this machine and prints what it found. Success if everything works that a move needs.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let findings = examine(Path::new("/"));
    let text = match args.json {
        true => doctor::json(&findings)? + "\n",
        false => doctor::text(&findings),
    };
    out.write_all(text.as_bytes())?;
    Ok(if can_move(&findings) { Exit::Success } else { Exit::Nothing })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: on whatever machine this runs, both forms tell the same verdict as the exit code.
    #[test]
    fn the_exit_code_is_the_verdict() {
        for json in [false, true] {
            let mut out = Vec::new();
            let exit = run(&Args { json }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let says_yes = text.contains("can be moved") || text.contains("\"can_move\": true");
            assert_eq!(says_yes, exit == Exit::Success, "{text}");
        }
    }
}
