//! All settings of one source, each of which may be missing.

use serde::Deserialize;

use super::balance::BalanceLayer;
use super::moves::MoveLayer;

/// All settings of one source. The next lower source decides a missing value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SettingsLayer {
    /// Settings of moves.
    #[serde(default, rename = "move")]
    pub moves: MoveLayer,
    /// Settings of the balancer.
    #[serde(default)]
    pub balance: BalanceLayer,
}

impl SettingsLayer {
    /// Returns this layer with missing values taken from the one below.
    pub fn over(self, below: Self) -> Self {
        Self { moves: self.moves.over(below.moves), balance: self.balance.over(below.balance) }
    }
}
