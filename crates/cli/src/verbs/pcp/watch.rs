//! `nodeward pcp watch`.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::procfs::{allocations, page_lists};
use nodeward_machine::Machine;

use super::selection::select;
use crate::args::{ListSelectionArgs, PcpWatchArgs};
use crate::message::exit::Exit;
use crate::output::{pcp, print};
use crate::results::{ListChanges, ListLook};

/// Shows changes until it is ended.
pub fn run(args: &PcpWatchArgs) -> Result<Exit> {
    let machine = Linux::open();
    let page_bytes = machine.page_bytes();
    let mut before = look(&machine, &args.selection)?;
    let mut round = 0;
    while args.rounds.is_none_or(|rounds| round < rounds) {
        thread::sleep(Duration::from_nanos(args.interval));
        let now = look(&machine, &args.selection)?;
        let changes = ListChanges::between(&before, &now);
        round += 1;
        print(&match args.output.json {
            true => format!("{}\n", pcp::changes_json(&changes, round, page_bytes)),
            false => pcp::changes_text(&changes, page_bytes),
        })?;
        before = now;
    }
    Ok(Exit::Done)
}

fn look(machine: &Linux, selection: &ListSelectionArgs) -> Result<ListLook> {
    let mut zones = page_lists::zones(Path::new("/"))?;
    select(&mut zones, selection)?;
    let counts = allocations::read(Path::new("/"))?;
    Ok(ListLook { at_ns: machine.now_ns(), zones, counts })
}
