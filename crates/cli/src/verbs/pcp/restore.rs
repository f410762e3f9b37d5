//! `nodeward pcp restore`.

use std::path::Path;

use anyhow::Result;
use nodeward_model::Escape as _;

use super::setting::restore_left;
use crate::message::exit::Exit;
use crate::output::pcp::setting_end;
use crate::output::print;
use crate::settings::state_dir;

/// Restores what a tuner that was killed left.
pub fn run() -> Result<Exit> {
    let dir = state_dir::dir()?;
    print(&match restore_left(Path::new("/"))? {
        None => {
            format!("there is nothing to restore: no tuner left a record in {}\n", dir.escaped())
        }
        Some(ended) => format!("{}\n", setting_end(ended)),
    })?;
    Ok(Exit::Done)
}
