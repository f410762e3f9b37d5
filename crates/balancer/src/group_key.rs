//! The key of a group, which no other group has, also after a restart.

use nodeward_model::GroupName;
use serde::{Deserialize, Serialize};

use super::called_groups::GroupNumber;

/// The key of a group, which no other group has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupKey {
    /// A group that a call made.
    Called(GroupNumber),
    /// A group of the rule with this name.
    Rule(GroupName),
}
