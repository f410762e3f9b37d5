//! `nodeward pcp restore`.

use std::path::Path;

use anyhow::Result;

use super::setting::restore_left;
use crate::message::exit::Exit;
use crate::output::pcp::setting_end;
use crate::output::print;

/// Restores what a tuner that was killed left.
pub fn run() -> Result<Exit> {
    print(&match restore_left(Path::new("/"))? {
        None => "there is nothing to restore\n".to_owned(),
        Some(ended) => format!("{}\n", setting_end(ended)),
    })?;
    Ok(Exit::Done)
}
