//! `nodeward ledger`: lists the moves that were made, or shows one of them.

use anyhow::Result;

use crate::args::LedgerArgs;
use crate::message::exit::Exit;
use crate::output::{ledger, print};
use crate::settings::state_dir;

/// Lists all operations, or shows one.
pub fn run(args: &LedgerArgs) -> Result<Exit> {
    let store = state_dir::ledgers()?;
    let text = match args.id {
        None if args.output.json => format!("{}\n", ledger::list_json(&store.list()?)),
        None => ledger::list_text(&store.list()?),
        Some(id) if args.output.json => {
            format!("{}\n", ledger::operation_json(&store.read(id)?, args.runs))
        }
        Some(id) => ledger::operation_text(&store.read(id)?, args.runs),
    };
    print(&text)?;
    Ok(Exit::Done)
}
