//! What tells a group from every other, also after a restart.

use nodeward_model::GroupName;
use serde::{Deserialize, Serialize};

use super::called_groups::GroupNumber;

/// What tells a group from every other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupKey {
    /// Made by a call.
    Called(GroupNumber),
    /// Of a rule of this name.
    Rule(GroupName),
}
