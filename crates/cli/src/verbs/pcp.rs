//! `nodeward pcp`: page lists of CPUs, shown, watched and tuned.

mod advise;
pub mod beside;
mod depths;
mod restore;
mod selection;
mod setting;
mod show;
mod tune;
mod tuning;
mod watch;

use anyhow::Result;

use crate::args::{PcpArgs, PcpVerb};
use crate::message::exit::Exit;

/// Does what was asked for.
pub fn run(args: &PcpArgs) -> Result<Exit> {
    match &args.verb {
        PcpVerb::Show(args) => show::run(args),
        PcpVerb::Watch(args) => watch::run(args),
        PcpVerb::Tune(args) => tune::run(args),
        PcpVerb::Advise(args) => advise::run(args),
        PcpVerb::Restore => restore::run(),
    }
}
