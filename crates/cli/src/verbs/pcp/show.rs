//! `nodeward pcp show`.

use std::path::Path;

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::page_lists::PageListState;
use nodeward_machine::Machine as _;

use super::selection::select;
use crate::args::PcpShowArgs;
use crate::message::exit::Exit;
use crate::output::{pcp, print};

/// Shows the lists.
pub fn run(args: &PcpShowArgs) -> Result<Exit> {
    let mut state = PageListState::read(Path::new("/"))?;
    select(&mut state.zones, &args.selection)?;
    let page_bytes = Linux::open().page_bytes();
    print(&match args.output.json {
        true => format!("{}\n", pcp::json(&state, page_bytes)),
        false => pcp::text(&state, page_bytes),
    })?;
    Ok(Exit::Done)
}
