//! `nodeward pcp`: page lists of CPUs, shown and watched.

mod selection;
mod show;
mod watch;

use anyhow::Result;

use crate::args::{PcpArgs, PcpVerb};
use crate::message::exit::Exit;

/// Does what was asked for.
pub fn run(args: &PcpArgs) -> Result<Exit> {
    match &args.verb {
        PcpVerb::Show(args) => show::run(args),
        PcpVerb::Watch(args) => watch::run(args),
    }
}
