//! Arguments for memory that a move leaves where it is.

use clap::Args;
use nodeward_model::units;
use nodeward_mover::Selection;

use crate::message::help::STAYS;

/// Memory that stays.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = STAYS)]
pub struct SkipArgs {
    /// Leave shared mappings and segments that are larger, such as 8GiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub skip_shared_above: Option<u64>,
    /// Leave the rest of a mapping untried whose first pages are found pinned
    #[arg(long)]
    pub skip_pinned: bool,
}

impl SkipArgs {
    /// Returns the selection of everything else.
    pub fn selection(self) -> Selection {
        Selection {
            shared_bytes_max: self.skip_shared_above,
            skip_pinned: self.skip_pinned,
            ..Selection::default()
        }
    }
}
